# Unlearning methods, each on the original that it starts from.


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
