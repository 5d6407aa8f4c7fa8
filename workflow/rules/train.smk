# Originals (subset full) and oracles (a rate: trained from fresh weights without its forget set), by the same rules.


rule train_vit:
    input:
        unpack(prepared),
        unpack(forget_set),
    output:
        system="results/models/{dataset}/seed{seed}/{subset}/{run}-t/system.safetensors",
        record="results/models/{dataset}/seed{seed}/{subset}/{run}-t/record.json",
    log:
        "logs/train/{dataset}/seed{seed}/{subset}/{run}-t.log",
    benchmark:
        "results/benchmarks/train/{dataset}/seed{seed}/{subset}/{run}-t.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        kind="vit",
        dataset="{dataset}",
        settings=lambda wildcards: section(wildcards.dataset, "data", "model", "train"),
        code=code("train.py"),
    message:
        "train the ViT, {wildcards.run}: {wildcards.dataset}, seed {wildcards.seed}, {wildcards.subset}"
    script:
        "../scripts/train.py"


rule train_munkey:
    input:
        unpack(prepared),
        unpack(forget_set),
        unpack(selected_for),
        keyfile=keys_of,
        neighbors=neighbors_of,
    output:
        system="results/models/{case}/seed{seed}/{subset}/{run}-m/system.safetensors",
        record="results/models/{case}/seed{seed}/{subset}/{run}-m/record.json",
    log:
        "logs/train/{case}/seed{seed}/{subset}/{run}-m.log",
    benchmark:
        "results/benchmarks/train/{case}/seed{seed}/{subset}/{run}-m.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        kind="munkey",
        dataset=lambda wildcards: dataset_of(wildcards.case),
        settings=lambda wildcards: section(wildcards.case, "data", "model", "train", "munkey"),
        code=code("train.py"),
    message:
        "train MUNKEY, {wildcards.run}: {wildcards.case}, seed {wildcards.seed}, {wildcards.subset}"
    script:
        "../scripts/train.py"


rule train_sisa:
    input:
        unpack(prepared),
        unpack(forget_set),
    output:
        system="results/models/{dataset}/seed{seed}/{subset}/{run}-s/system.safetensors",
        record="results/models/{dataset}/seed{seed}/{subset}/{run}-s/record.json",
    log:
        "logs/train/{dataset}/seed{seed}/{subset}/{run}-s.log",
    benchmark:
        "results/benchmarks/train/{dataset}/seed{seed}/{subset}/{run}-s.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        dataset="{dataset}",
        settings=sisa_settings,
        code=code("train_sisa.py"),
    message:
        "train SISA, {wildcards.run}: {wildcards.dataset}, seed {wildcards.seed}, {wildcards.subset}"
    script:
        "../scripts/train_sisa.py"
