# The pools of audits, whose halves pairs of models swap (docs/audits.md).


use rule job as half with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: {"keyfile": PLAN.keys(w.dataset)} if PARAMS.audit.pool_of == "cluster" else {}),
    output:
        half=LAYOUT.half,
    log:
        LAYOUT.log("audit/{dataset}/halves/seed{seed}"),
    priority: 1  # before any training: a pool that is too small or too large is noticed at once
    params:
        pool=PARAMS.audit.pool,
        pool_of=PARAMS.audit.pool_of,
        draw=PARAMS.audit.draw,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code("pools.half"),
    message:
        "draw the half of the audit's pool that seed {wildcards.seed} forgets: {wildcards.dataset}"


use rule job as hardest_half with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        neighbors=lambda w: PLAN.neighbors(w.dataset, w.seed, "full"),
    output:
        half=LAYOUT.hardest_half,
    log:
        LAYOUT.log("audit/{dataset}/hardest/seed{seed}"),
    priority: 1
    params:
        pool=PARAMS.audit.pool,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code("pools.hardest_half"),
    message:
        "draw the half of the hardest samples that seed {wildcards.seed} forgets: {wildcards.dataset}"


use rule job as mislabel with:
    input:
        LAYOUT.samples,
        LAYOUT.classes,
        source=LAYOUT.images,
        pool=lambda w: AUDITS.list_halves(w.dataset)[:2],
    output:
        images=fill(LAYOUT.mislabeled, part="images.npy"),
        samples=fill(LAYOUT.mislabeled, part="samples.csv"),
        classes=fill(LAYOUT.mislabeled, part="classes.json"),
    log:
        LAYOUT.log("audit/{dataset}/mislabel"),
    params:
        code=code("pools.mislabel"),
    message:
        "give the audit's pool wrong labels: {wildcards.dataset}"
