# Forget sets (sec. 4), shared by every method and both oracles.


rule forget:
    input:
        unpack(prepared),
    output:
        forget="results/forget/{dataset}/seed{seed}/rate{rate}.csv",
    log:
        "logs/forget/{dataset}/seed{seed}/rate{rate}.log",
    benchmark:
        "results/benchmarks/forget/{dataset}/seed{seed}/rate{rate}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        folder="results/data/{dataset}",
        sampling=lambda wildcards: PARAMS.of(wildcards.dataset).forget.sampling,
        code=code("forget.py"),
    message:
        "draw the forget set of {wildcards.dataset}, seed {wildcards.seed}, rate {wildcards.rate}"
    script:
        "../scripts/forget.py"
