"""Where an MLflow store compares methods: the addresses of its views, for `make ui`.

python -m munkey.pipeline.ui URI
"""

import sys
from collections.abc import Sequence

from munkey.pipeline.layout import DEFAULT
from munkey.pipeline.mlflow_store import StoreError, opened


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Returns what is wrong, if anything."""
    (uri,) = sys.argv[1:] if arguments is None else arguments
    try:
        with opened(uri, DEFAULT) as store:
            views = store.views()
    except StoreError as error:
        return str(error)
    print(
        "Compare methods at:" if views else "This store is empty: run `make run`, or `make track` if there are results"
    )
    print(*(f"{address}  {name}" for name, address in views.items()), sep="\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
