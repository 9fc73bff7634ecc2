-- Large texts are in a separate table (job_texts), so that queries for job lists do not read them.
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE users (name TEXT PRIMARY KEY, password TEXT NOT NULL, admin INTEGER NOT NULL);
CREATE TABLE tokens (token TEXT PRIMARY KEY, username TEXT NOT NULL, ends INTEGER);
CREATE INDEX tokens_by_user ON tokens (username);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    username TEXT NOT NULL,
    virtual_cluster TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'WAITING',
    sub_state TEXT NOT NULL,
    execution_type TEXT NOT NULL DEFAULT 'START',
    retries INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    launched INTEGER,
    completed INTEGER,
    exit_code INTEGER,
    exit_type TEXT,
    diagnostics TEXT,
    deleted INTEGER NOT NULL DEFAULT 0,
    total_gpus INTEGER NOT NULL DEFAULT 0,
    total_tasks INTEGER NOT NULL DEFAULT 0,
    total_roles INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX jobs_by_created ON jobs (created);
CREATE INDEX jobs_unfinished ON jobs (id) WHERE sub_state <> 'FRAMEWORK_COMPLETED' OR deleted;
CREATE TABLE job_texts (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    config_json TEXT NOT NULL,
    spec_json TEXT NOT NULL
);
CREATE TABLE secrets (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, value TEXT NOT NULL
);
CREATE TABLE tags (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, name TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    container_id TEXT,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX events_by_job ON events (job_id);
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    launched INTEGER NOT NULL,
    completed INTEGER,
    interrupted INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER,
    trigger_role TEXT,
    trigger_index INTEGER,
    trigger_message TEXT
);
CREATE INDEX attempts_by_job ON attempts (job_id);
CREATE TABLE tasks (
    container_id TEXT PRIMARY KEY,
    attempt_id INTEGER NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    task_index INTEGER NOT NULL,
    folder TEXT NOT NULL,
    ports TEXT NOT NULL,
    gpus TEXT NOT NULL,
    pid INTEGER,
    pid_started TEXT,
    exit_code INTEGER,
    launched INTEGER,
    completed INTEGER,
    exit_info TEXT,
    number INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX tasks_by_attempt ON tasks (attempt_id);
