# Unlearning methods, each on the original that it starts from. Where `search` is on, a searched method runs once for
# every candidate of its settings, and the best on validation becomes its result.


rule unlearn:
    input:
        unpack(prepared),
        unpack(original_of),
        forget=forget_of_rate,
    output:
        system="results/models/{case}/seed{seed}/rate{rate}/{method}/system.safetensors",
        record="results/models/{case}/seed{seed}/rate{rate}/{method}/record.json",
    log:
        "logs/unlearn/{case}/seed{seed}/rate{rate}/{method}.log",
    benchmark:
        "results/benchmarks/unlearn/{case}/seed{seed}/rate{rate}/{method}.tsv"
    wildcard_constraints:
        method=one_of(name for name in METHODS if name not in SEARCHED),
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=lambda wildcards: GPUS if METHODS[wildcards.method].needs else 0,
    params:
        dataset=lambda wildcards: dataset_of(wildcards.case),
        settings=unlearn_settings,
        code=lambda wildcards: code("unlearn.py", METHODS[wildcards.method].run.__module__),
    message:
        "unlearn with {wildcards.method}: {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"
    script:
        "../scripts/unlearn.py"


use rule unlearn as unlearn_candidate with:
    output:
        system="results/search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/system.safetensors",
        record="results/search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/record.json",
    log:
        "logs/search/{case}/seed{seed}/rate{rate}/{method}/{candidate}.log",
    benchmark:
        "results/benchmarks/search/{case}/seed{seed}/rate{rate}/{method}/{candidate}.tsv"
    wildcard_constraints:
        method=one_of(SEARCHED),
    params:
        dataset=lambda wildcards: dataset_of(wildcards.case),
        settings=candidate_settings,
        code=lambda wildcards: code("unlearn.py", METHODS[wildcards.method].run.__module__),
    message:
        "try {wildcards.method}, candidate {wildcards.candidate}: {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"


rule search:
    input:
        unpack(prepared),
        unpack(original_of),
        unpack(candidates_of),
        forget=forget_of_rate,
    output:
        system="results/models/{case}/seed{seed}/rate{rate}/{method}/system.safetensors",
        record="results/models/{case}/seed{seed}/rate{rate}/{method}/record.json",
        found="results/search/{case}/seed{seed}/rate{rate}/{method}/search.json",
    log:
        "logs/search/{case}/seed{seed}/rate{rate}/{method}.log",
    benchmark:
        "results/benchmarks/search/{case}/seed{seed}/rate{rate}/{method}.tsv"
    wildcard_constraints:
        method=one_of(SEARCHED),
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        dataset=lambda wildcards: dataset_of(wildcards.case),
        settings=search_settings,
        code=code("search.py"),
    message:
        "choose among candidates of {wildcards.method}: {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"
    script:
        "../scripts/search.py"
