# Unlearning methods, each on the original that it starts from. Where `search` is on, a searched method runs once for
# every candidate of its settings, and the best on validation becomes its result.


rule unlearn:
    input:
        unpack(prepared),
        unpack(original_of),
        forget="results/forget/{dataset}/seed{seed}/rate{rate}.csv",
    output:
        system="results/models/{dataset}/seed{seed}/rate{rate}/{method}/system.safetensors",
        record="results/models/{dataset}/seed{seed}/rate{rate}/{method}/record.json",
    log:
        "logs/unlearn/{dataset}/seed{seed}/rate{rate}/{method}.log",
    benchmark:
        "results/benchmarks/unlearn/{dataset}/seed{seed}/rate{rate}/{method}.tsv"
    wildcard_constraints:
        method=one_of(name for name in METHODS if name not in SEARCHED),
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=lambda wildcards: GPUS if METHODS[wildcards.method].needs else 0,
    params:
        folder="results/data/{dataset}",
        settings=unlearn_settings,
        code=lambda wildcards: code("unlearn.py", METHODS[wildcards.method].run.__module__),
    message:
        "unlearn with {wildcards.method}: {wildcards.dataset}, seed {wildcards.seed}, rate {wildcards.rate}"
    script:
        "../scripts/unlearn.py"


use rule unlearn as unlearn_candidate with:
    output:
        system="results/search/{dataset}/seed{seed}/rate{rate}/{method}/{candidate}/system.safetensors",
        record="results/search/{dataset}/seed{seed}/rate{rate}/{method}/{candidate}/record.json",
    log:
        "logs/search/{dataset}/seed{seed}/rate{rate}/{method}/{candidate}.log",
    benchmark:
        "results/benchmarks/search/{dataset}/seed{seed}/rate{rate}/{method}/{candidate}.tsv"
    wildcard_constraints:
        method=one_of(SEARCHED),
    params:
        folder="results/data/{dataset}",
        settings=candidate_settings,
        code=lambda wildcards: code("unlearn.py", METHODS[wildcards.method].run.__module__),
    message:
        "try {wildcards.method}, candidate {wildcards.candidate}: {wildcards.dataset}, seed {wildcards.seed}, rate {wildcards.rate}"


rule search:
    input:
        unpack(prepared),
        unpack(original_of),
        unpack(candidates_of),
        forget="results/forget/{dataset}/seed{seed}/rate{rate}.csv",
    output:
        system="results/models/{dataset}/seed{seed}/rate{rate}/{method}/system.safetensors",
        record="results/models/{dataset}/seed{seed}/rate{rate}/{method}/record.json",
        found="results/search/{dataset}/seed{seed}/rate{rate}/{method}/search.json",
    log:
        "logs/search/{dataset}/seed{seed}/rate{rate}/{method}.log",
    benchmark:
        "results/benchmarks/search/{dataset}/seed{seed}/rate{rate}/{method}.tsv"
    wildcard_constraints:
        method=one_of(SEARCHED),
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        folder="results/data/{dataset}",
        settings=search_settings,
        code=code("search.py"),
    message:
        "choose among candidates of {wildcards.method}: {wildcards.dataset}, seed {wildcards.seed}, rate {wildcards.rate}"
    script:
        "../scripts/search.py"
