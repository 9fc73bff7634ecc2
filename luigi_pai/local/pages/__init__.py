"""The web pages for people (the APIs are for programs): the job list, and a page for each job."""
