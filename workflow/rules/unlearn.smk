# Unlearning methods, each on the original that it starts from. Where `search` is on, a searched method runs once for
# every candidate of its settings, and the best on validation becomes its result.


use rule gpu_job as unlearn with:
    input:
        unpack(lambda w: PLAN.unlearn_input(w.case, w.seed, w.rate, w.method)),
    output:
        system=fill(LAYOUT.system, subset="rate{rate}", system="{method}"),
        record=fill(LAYOUT.record, subset="rate{rate}", system="{method}"),
    log:
        LAYOUT.log("unlearn/{case}/seed{seed}/rate{rate}/{method}"),
    wildcard_constraints:
        method=plan.wildcard_pattern(name for name in METHODS if name not in PLAN.searched),
    resources:
        gpu=lambda w: GPUS if METHODS[w.method].needs else 0,
    params:
        dataset=lambda w: plan.get_dataset(w.case),
        settings=lambda w: dump_settings(PLAN.unlearn_settings(w.case, w.method)),
        needs=lambda w: sorted(METHODS[w.method].needs),  # wherever the method is registered
        code=code("unlearn.unlearn", lambda w: PLAN.method_code(w.case, w.method)),
    message:
        "unlearn with {wildcards.method}: {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"


# Of models in pairs, nothing but the answers of what a method leaves is needed.
use rule unlearn as unlearn_audited with:
    input:
        unpack(lambda w: PLAN.unlearn_input(w.case, w.seed, w.rate, w.method)),
        unpack(lambda w: PLAN.retrieval_files(w.case, w.seed, f"rate{w.rate}", w.method)),
    output:
        logits=fill(LAYOUT.logits, subset="rate{rate}", system="{method}"),
        record=fill(LAYOUT.record, subset="rate{rate}", system="{method}"),
    wildcard_constraints:
        case=plan.wildcard_pattern(PLAN.paired_cases),
        method=plan.wildcard_pattern(name for name in METHODS if name not in PLAN.searched),
    params:
        settings=lambda w: dump_settings(
            {**PLAN.unlearn_settings(w.case, w.method), **PLAN.evaluate_settings(w.case, w.method)}
        ),
        code=code("evaluate.unlearn_audited", lambda w: PLAN.method_code(w.case, w.method)),


ruleorder: unlearn_audited > unlearn > evaluate


use rule unlearn as unlearn_candidate with:
    output:
        system=LAYOUT.candidate_system,
        record=LAYOUT.candidate_record,
    log:
        LAYOUT.log("search/{case}/seed{seed}/rate{rate}/{method}/{candidate}"),
    wildcard_constraints:
        method=plan.wildcard_pattern(PLAN.searched),
    params:
        settings=lambda w: dump_settings(PLAN.unlearn_settings(w.case, w.method, int(w.candidate))),
    message:
        "try {wildcards.method}, candidate {wildcards.candidate}: {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"


use rule gpu_job as search with:
    input:
        unpack(lambda w: PLAN.unlearn_input(w.case, w.seed, w.rate, w.method)),
        unpack(lambda w: PLAN.candidates(w.case, w.seed, w.rate, w.method)),
    output:
        system=fill(LAYOUT.system, subset="rate{rate}", system="{method}"),
        record=fill(LAYOUT.record, subset="rate{rate}", system="{method}"),
        found=LAYOUT.search,
    log:
        LAYOUT.log("search/{case}/seed{seed}/rate{rate}/{method}"),
    wildcard_constraints:
        method=plan.wildcard_pattern(PLAN.searched),
    params:
        data=lambda w: dump_settings(PARAMS.for_case(w.case).data),
        drop=PARAMS.search_drop,
        code=code("search.search", lambda w: PLAN.family_code(w.case, PLAN.find_family(w.method))),
    message:
        "choose among candidates of {wildcards.method}: {wildcards.case}, seed {wildcards.seed}, rate {wildcards.rate}"
