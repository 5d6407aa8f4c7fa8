# Forget sets (sec. 4), shared by every method and every oracle.


use rule job as forget with:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
    output:
        forget=LAYOUT.forget,
    log:
        LAYOUT.log("forget/{case}/seed{seed}/rate{rate}"),
    wildcard_constraints:
        case=plan.wildcard_pattern(PLAN.list_forget_cases(random=True)),
    priority: 1  # before any training: a rate that would leave a class empty is noticed at once
    params:
        dataset=lambda w: plan.get_dataset(w.case),
        sampling=lambda w: PARAMS.for_case(w.case).forget.sampling,
        code=code("forget.forget"),
    message:
        "draw the forget set of {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"
