# Keys from the frozen encoder (sec. 3.2), and each sample's nearest neighbors in a memory.


use rule gpu_job as keys with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        parts=lambda w: PLAN.key_parts(w.dataset, w.encoder),
    output:
        keyfile=LAYOUT.keys,
    log:
        LAYOUT.log("keys/{dataset}/{encoder}"),
    priority: 1  # before any training: an encoder that cannot be built is noticed at once
    params:
        settings=lambda w: dump_settings(PLAN.encoder_settings(w.dataset, w.encoder)),
        weights=lambda w: PLAN.encoder_weights(w.dataset, w.encoder),
        code=code("keys.keys", lambda w: PLAN.encoder_builders(w.dataset, w.encoder)),
    message:
        "extract the keys of {wildcards.dataset} with {wildcards.encoder}"


use rule cpu_job as neighbors with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: PLAN.get_forget_set_of_scope(w.dataset, w.scope)),
        keyfile=LAYOUT.keys,
    output:
        neighbors=LAYOUT.neighbors,
    log:
        LAYOUT.log("neighbors/{dataset}/{encoder}/{scope}"),
    params:
        depth=lambda w: PLAN.get_depth(w.dataset, w.scope),
        code=code("keys.neighbors"),
    message:
        "find nearest neighbors in the memory of {wildcards.dataset} ({wildcards.scope})"
