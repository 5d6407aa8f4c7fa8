# The paper's numbers beside ours: a part of `make paper`.
from munkey.studies.paper.plan import PaperPlan

PAPERS_SETTING = PaperPlan(PLAN)
PAPER_CHAPTER = LAYOUT.result_path("tables/paper-chapter.json")
CHAPTERS.append(lambda: so_far("compare", [PAPER_CHAPTER]))
PAPER += expand(LAYOUT.table, table="paper", ending=["md", "tex"])


use rule job as compare with:
    input:
        main_table=table("main", "csv"),
        ablations=table("ablations", "csv"),
        printed="src/munkey/studies/paper/paper.csv",
    output:
        **printed(table("paper")),
        csv=table("paper", "csv"),
        chapter=PAPER_CHAPTER,
    log:
        LAYOUT.log("compare"),
    params:
        settings=PAPERS_SETTING.compared,
        seeds=len(PARAMS.seeds),
        code=code("studies.paper.tables.paper_tables"),
    message:
        "put the paper's numbers beside ours"
