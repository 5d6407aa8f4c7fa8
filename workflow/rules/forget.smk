# Forget sets (sec. 4), shared by every method and every oracle.


use rule job as forget with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
    output:
        forget=LAYOUT.forget,
    log:
        LAYOUT.log("forget/{dataset}/seed{seed}/rate{rate}"),
    priority: 1  # before any training: a rate that would leave a class empty is noticed at once
    params:
        sampling=lambda w: PARAMS.for_case(w.dataset).forget.sampling,
        code=code("forget.forget"),
    message:
        "draw the forget set of {wildcards.dataset}, seed {wildcards.seed}, rate {wildcards.rate}"
