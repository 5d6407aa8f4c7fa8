# Keys from the frozen encoder (sec. 3.2), and each sample's nearest neighbors in a memory.


rule keys:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
    output:
        keyfile=LAYOUT.keys,
    log:
        LAYOUT.log("keys/{dataset}/{encoder}"),
    benchmark:
        LAYOUT.benchmark("keys/{dataset}/{encoder}")
    priority: 1  # before any training: an encoder that cannot be built is noticed at once
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        settings=lambda w: PLAN.encoder_settings(w.dataset, w.encoder).model_dump(),
        weights=lambda w: PLAN.encoder_weights(w.dataset, w.encoder),
        code=lambda w: code("keys.py", PLAN.encoder_builder(w.dataset, w.encoder)),
    message:
        "extract the keys of {wildcards.dataset} with {wildcards.encoder}"
    script:
        "../scripts/keys.py"


rule neighbors:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: PLAN.forget_of_scope(w.dataset, w.scope)),
        keyfile=LAYOUT.keys,
    output:
        neighbors=LAYOUT.neighbors,
    log:
        LAYOUT.log("neighbors/{dataset}/{encoder}/{scope}"),
    benchmark:
        LAYOUT.benchmark("neighbors/{dataset}/{encoder}/{scope}")
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    params:
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code("neighbors.py"),
    message:
        "find nearest neighbors in the memory of {wildcards.dataset} ({wildcards.scope})"
    script:
        "../scripts/neighbors.py"
