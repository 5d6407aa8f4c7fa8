# Keys from the frozen encoder (sec. 3.2), and each sample's nearest neighbours in a memory.


rule keys:
    input:
        unpack(prepared),
    output:
        keyfile="results/keys/{dataset}/{encoder}/keys.npz",
    log:
        "logs/keys/{dataset}/{encoder}.log",
    benchmark:
        "results/benchmarks/keys/{dataset}/{encoder}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        folder="results/data/{dataset}",
        settings=lambda wildcards: encoding(wildcards).model_dump(exclude={"depth"}),
        code=lambda wildcards: code("keys.py", find(encoding(wildcards).encoder).build.__module__),
    message:
        "extract the keys of {wildcards.dataset} with {wildcards.encoder}"
    script:
        "../scripts/keys.py"


rule neighbors:
    input:
        unpack(prepared),
        unpack(forget_of_scope),
        keyfile="results/keys/{dataset}/{encoder}/keys.npz",
    output:
        neighbors="results/neighbors/{dataset}/{encoder}/{scope}.npz",
    log:
        "logs/neighbors/{dataset}/{encoder}/{scope}.log",
    benchmark:
        "results/benchmarks/neighbors/{dataset}/{encoder}/{scope}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    params:
        folder="results/data/{dataset}",
        depth=lambda wildcards: PARAMS.of(wildcards.dataset).keys.depth,
        code=code("neighbors.py"),
    message:
        "find nearest neighbours in the memory of {wildcards.dataset} ({wildcards.scope})"
    script:
        "../scripts/neighbors.py"
