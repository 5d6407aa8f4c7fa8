"""What surrounds a job: its log and record, where it comes from, which code it depends on, how it starts."""
