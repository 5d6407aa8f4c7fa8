# Originals (subset `full`) and oracles (`rateR`: from fresh weights, without the forget set) of every family.


use rule gpu_job as train with:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
        unpack(lambda w: PLAN.train_input(w.case, w.seed, w.subset, w.letter)),
    output:
        system=fill(LAYOUT.system, system="{run}-{letter}"),
        record=fill(LAYOUT.record, system="{run}-{letter}"),
    log:
        LAYOUT.log("train/{case}/seed{seed}/{subset}/{run}-{letter}"),
    priority: lambda w: 0.5 if w.subset == "full" else 0  # all unlearning waits for the originals
    params:
        family=lambda w: PLAN.find_family_by_letter(w.letter).name,
        dataset=lambda w: plan.get_dataset(w.case),
        settings=lambda w: dump_settings(PLAN.train_settings(w.case, w.letter)),
        code=code("train.train", lambda w: PLAN.family_code(w.case, PLAN.find_family_by_letter(w.letter))),
    message:
        "train {params.family}, {wildcards.run}: {wildcards.case}, seed {wildcards.seed}, {wildcards.subset}"
