# The service of docs/serving.md in a container, with Debian's Python and torch for CPUs:
#   docker build --tag munkey .
#   docker run --publish 127.0.0.1:8000:8000 --volume "$PWD/model:/model" --env-file tokens munkey
# `tokens` has a line MUNKEY_TOKEN=…; the folder `model` must be writable for the user 10001. Other commands:
#   docker run --volume "$PWD/model:/model" munkey forget /model --ids 17
FROM debian:trixie-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /source/
RUN python3 -m venv /opt/munkey \
    && /opt/munkey/bin/python -m pip install --no-cache-dir --constraint /source/requirements.lock uv
COPY . /source
RUN /opt/munkey/bin/uv pip install --no-cache --python /opt/munkey/bin/python --torch-backend cpu \
    --constraint /source/requirements.lock '/source[service]' \
    && /opt/munkey/bin/uv pip uninstall --python /opt/munkey/bin/python uv pip

FROM debian:trixie-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home munkey
COPY --from=build /opt/munkey /opt/munkey
USER 10001
ENV PATH=/opt/munkey/bin:$PATH
VOLUME /model
EXPOSE 8000
# A stop waits for a purge, which reads the whole memory: `docker stop --time 600`.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --start-period=60s CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["munkey"]
CMD ["serve", "/model", "--host", "0.0.0.0"]
