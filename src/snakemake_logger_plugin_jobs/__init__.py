"""Lists the jobs of a dry run, a JSON object on each line: `snakemake --dry-run --logger jobs`."""

import json
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent


class LogHandler(LogHandlerBase):
    """Prints the rule, inputs and outputs of each job, and errors."""

    writes_to_stream = True
    writes_to_file = False
    needs_rulegraph = False
    has_filter = False
    has_formatter = False

    def emit(self, record: LogRecord) -> None:
        fields = vars(record)
        if fields.get("event") == LogEvent.JOB_INFO:
            print(json.dumps({name: fields[name] for name in ("rule_name", "input", "output")}))
        elif fields.get("event") == LogEvent.ERROR:
            print(record.getMessage())
