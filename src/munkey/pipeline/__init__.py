"""The pipeline around the results: parameters, plan, paths, jobs, records, tracking. It may import all of munkey."""
