"""The web pages for people (the APIs are for programs): the list of jobs, and a page for each job."""
