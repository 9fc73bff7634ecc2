"""Client of an OpenPAI cluster: its REST API, jobs and logs. It does not use Luigi."""
