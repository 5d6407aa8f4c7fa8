# Forget sets (sec. 4), shared by every method and every oracle.


use rule job as forget with:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
        unpack(lambda w: PLAN.forget_set_sources(w.case, int(w.seed))),
    output:
        forget=LAYOUT.forget,
    log:
        LAYOUT.log("forget/{case}/seed{seed}/rate{rate}"),
    priority: 1  # before any training: a rate that would leave a class empty is noticed at once
    params:
        dataset=lambda w: plan.get_dataset(w.case),
        sampling=lambda w: PARAMS.for_case(w.case).forget.sampling,
        names=lambda w: PARAMS.for_case(w.case).forget.names,
        depth=lambda w: (
            PARAMS.for_case(w.case).keys.depth if "neighbors" in PLAN.forget_set_sources(w.case, int(w.seed)) else 0
        ),
        k=lambda w: (
            PARAMS.for_case(w.case).inference.k if "neighbors" in PLAN.forget_set_sources(w.case, int(w.seed)) else 1
        ),
        code=code("forget.forget"),
    message:
        "draw the forget set of {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"
