# The paper's figures and two more: `make figures`. Each as SVG and PNG under results/figures.
ANSWERS = fill(LAYOUT.logits, case="{dataset}", seed=EXHIBITS.seed)


use rule gpu_job as trace with:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
        unpack(lambda w: PLAN.train_input(w.case, w.seed, "full", memory_family().letter)),
    output:
        trace=LAYOUT.trace,
    log:
        LAYOUT.log("trace/{case}/seed{seed}"),
    params:
        family=memory_family().name,
        dataset=lambda w: plan.get_dataset(w.case),
        settings=lambda w: dump_settings(PLAN.sections(w.case, *memory_family().sections)),
        code=code("relearn.trace", lambda _: [memory_family()]),
    message:
        "train {params.family} on {wildcards.case} once more and watch its pathways, seed {wildcards.seed}"


use rule job as chart with:
    input:
        unpack(lambda w: EXHIBITS.chart_input(w.chart)),
    output:
        **picture(fill(LAYOUT.figure, figure="{chart}"), "figure", "Figures"),
    log:
        LAYOUT.log("figures/{chart}"),
    wildcard_constraints:
        chart=plan.wildcard_pattern(EXHIBITS.charts),
    params:
        threshold=PARAMS.selection.threshold,
        caption=lambda w: caption(w.chart),
        code=code("report.chart"),
    message:
        "draw {wildcards.chart}"


use rule job as retrieval with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: PLAN.forget_set(w.dataset, EXHIBITS.seed, f"rate{w.rate}")),
        full=lambda w: PLAN.neighbors(w.dataset, EXHIBITS.seed, "full", PARAMS.for_case(w.dataset).inference.k),
        left=lambda w: PLAN.neighbors(w.dataset, EXHIBITS.seed, f"rate{w.rate}", PARAMS.for_case(w.dataset).inference.k),
        before=fill(ANSWERS, subset="full", system=memory_family().original),
        after=fill(ANSWERS, subset="rate{rate}", system=PLAN.ablated_method.name),
    output:
        **picture(fill(LAYOUT.figure, figure="retrieval-{dataset}-rate{rate}"), "figure", "Figures"),
    log:
        LAYOUT.log("figures/retrieval-{dataset}-rate{rate}"),
    params:
        inference=lambda w: dump_settings(PARAMS.for_case(w.dataset).inference),
        caption=lambda w: caption(f"retrieval-{w.dataset}-rate{w.rate}"),
        code=code("report.retrieval"),
    message:
        "draw what {wildcards.dataset} retrieves before and after deletion"
