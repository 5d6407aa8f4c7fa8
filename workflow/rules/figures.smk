# The paper's figures and one more: `make figures`. Each as SVG and PNG under results/figures.


rule figures:
    input:
        expand(LAYOUT.figure, figure=FIGURES, ending=["svg", "png"]),


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
        code=code("trace.trace", lambda w: PLAN.family_code(w.case, memory_family())),
    message:
        "train {params.family} on {wildcards.case} once more and watch its pathways, seed {wildcards.seed}"


use rule job as chart with:
    input:
        unpack(lambda w: EXHIBITS.find_chart_inputs(w.chart)),
    output:
        **picture(fill(LAYOUT.figure, figure="{chart}"), "figure", "Figures"),
    log:
        LAYOUT.log("figures/{chart}"),
    wildcard_constraints:
        chart=plan.wildcard_pattern(EXHIBITS.charts),
    params:
        caption=lambda w: FIGURES[w.chart],
        code=code("report.chart"),
    message:
        "draw {wildcards.chart}"
