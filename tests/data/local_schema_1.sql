-- server.sqlite as the second release left it (PRAGMA user_version 1).
BEGIN TRANSACTION;
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "about" VALUES('cluster_timestamp','1700000000000');
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    launched INTEGER NOT NULL,
    completed INTEGER,
    interrupted INTEGER NOT NULL DEFAULT 0
, exit_code INTEGER, trigger_role TEXT, trigger_index INTEGER, trigger_message TEXT);
INSERT INTO "attempts" VALUES(1,1,1,1700000001100,1700000003000,0,3,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,3,1,1700000001200,1700000004000,0,0,NULL,NULL,NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    container_id TEXT,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL
);
INSERT INTO "events" VALUES(1,3,NULL,'Normal','JobEnded','the job ended with exit code 0',1700000004000);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    username TEXT NOT NULL,
    virtual_cluster TEXT NOT NULL,
    config_json TEXT NOT NULL,
    spec_json TEXT NOT NULL,
    sub_state TEXT NOT NULL,
    execution_type TEXT NOT NULL DEFAULT 'START',
    retries INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    completed INTEGER,
    exit_code INTEGER,
    exit_type TEXT,
    diagnostics TEXT,
    deleted INTEGER NOT NULL DEFAULT 0
, generation INTEGER NOT NULL DEFAULT 1, total_gpus INTEGER NOT NULL DEFAULT 0, total_tasks INTEGER NOT NULL DEFAULT 0, total_roles INTEGER NOT NULL DEFAULT 0, launched INTEGER);
INSERT INTO "jobs" VALUES(1,'old','bob','default','{"jobName": "old", "image": "python", "taskRoles": [{"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "true"}]}','{"jobName": "old", "image": "python", "taskRoles": [{"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "true", "shmMB": 64, "portList": [], "minFailedTaskCount": null, "minSucceededTaskCount": null}], "virtualCluster": "default", "retryCount": 0}','FRAMEWORK_COMPLETED','START',0,0,1700000001000,1700000003000,3,'FAILED',NULL,0,1,0,1,1,1700000001100);
INSERT INTO "jobs" VALUES(2,'waiting','bob','default','{"jobName": "waiting", "image": "python", "taskRoles": [{"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "true"}]}','{"jobName": "waiting", "image": "python", "taskRoles": [{"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "true", "shmMB": 64, "portList": [], "minFailedTaskCount": null, "minSucceededTaskCount": null}], "virtualCluster": "default", "retryCount": 0}','FRAMEWORK_WAITING','START',0,0,1700000001001,NULL,NULL,NULL,NULL,0,1,0,1,1,NULL);
INSERT INTO "jobs" VALUES(3,'second','bob','default','{"protocolVersion": 2, "name": "second", "type": "job", "jobRetryCount": 0, "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "python"}], "taskRoles": {"main": {"instances": 1, "dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0}, "commands": ["true"]}}}','{"retryCount": 0, "gang": true, "storages": [], "taskRoles": [{"name": "main", "shown": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "shmMB": 0, "portList": [{"label": "ssh", "beginAt": 0, "portNumber": 1}, {"label": "http", "beginAt": 0, "portNumber": 1}], "command": "true", "minFailedTaskCount": 1, "minSucceededTaskCount": 1, "taskRetryCount": 0, "plugins": []}]}','FRAMEWORK_COMPLETED','START',0,0,1700000001002,1700000004000,0,'Succeeded',NULL,0,2,0,1,1,1700000001200);
INSERT INTO "jobs" VALUES(4,'secretive','bob','default','{"protocolVersion": 2, "name": "secretive", "type": "job", "jobRetryCount": 0, "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "python"}], "taskRoles": {"main": {"instances": 1, "dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0}, "commands": ["echo ''<% $secrets.pw %>''"]}}, "secrets": "******"}','{"retryCount": 0, "gang": true, "storages": [], "taskRoles": [{"name": "main", "shown": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "shmMB": 0, "portList": [{"label": "ssh", "beginAt": 0, "portNumber": 1}, {"label": "http", "beginAt": 0, "portNumber": 1}], "command": "echo ''<% $secrets.pw %>''", "minFailedTaskCount": 1, "minSucceededTaskCount": 1, "taskRetryCount": 0, "plugins": []}]}','FRAMEWORK_WAITING','START',0,0,1700000001003,NULL,NULL,NULL,NULL,0,2,0,1,1,NULL);
CREATE TABLE secrets (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, value TEXT NOT NULL
);
INSERT INTO "secrets" VALUES(4,'{"pw": "hush"}');
CREATE TABLE tags (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, name TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
);
INSERT INTO "tags" VALUES(3,'kept');
CREATE TABLE tasks (
    container_id TEXT PRIMARY KEY,
    attempt_id INTEGER NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    task_index INTEGER NOT NULL,
    folder TEXT NOT NULL,
    ports TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    pid INTEGER,
    pid_started TEXT,
    exit_code INTEGER
, launched INTEGER, completed INTEGER, exit_info TEXT, number INTEGER NOT NULL DEFAULT 0, counted_retries INTEGER NOT NULL DEFAULT 0);
INSERT INTO "tasks" VALUES('container_1700000000000_0001_01_000002',1,'main',0,'1-old/attempt1/main-0','{}',0,NULL,NULL,3,1700000001100,1700000003000,NULL,0,0);
INSERT INTO "tasks" VALUES('6b1f0c9e-0000-4000-8000-000000000001',2,'main',0,'3-second/attempt1/main-0','{}',0,NULL,NULL,0,1700000001200,1700000004000,NULL,0,0);
CREATE TABLE tokens (token TEXT PRIMARY KEY, username TEXT NOT NULL, ends INTEGER);
CREATE TABLE users (
    name TEXT PRIMARY KEY, password TEXT NOT NULL, admin INTEGER NOT NULL, virtual_clusters TEXT NOT NULL
);
INSERT INTO "users" VALUES('admin','de0ef366c0b736288819766f6419db3f$2becf9cea04b1c035054d9e4be81d59b3137f7e5b16ff3997b2fce9c0229e0b6',1,'default');
INSERT INTO "users" VALUES('bob','ecc4eb0178b2a1c3b5a8b509435ca0b5$8046a7078b9f4783020d286629baaeb2c76590ef890d683a4285717e7763adac',0,'default');
CREATE INDEX jobs_by_state ON jobs (sub_state);
CREATE INDEX attempts_by_job ON attempts (job_id);
CREATE INDEX tasks_by_attempt ON tasks (attempt_id)
;
CREATE UNIQUE INDEX jobs_v1_by_name ON jobs (name) WHERE generation = 1 AND NOT deleted;
CREATE UNIQUE INDEX jobs_v2_by_name ON jobs (username, name) WHERE generation = 2;
CREATE INDEX jobs_by_created ON jobs (generation, created);
CREATE INDEX events_by_job ON events (job_id);
CREATE INDEX tokens_by_user ON tokens (username)
;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',7);
INSERT INTO "sqlite_sequence" VALUES('attempts',2);
INSERT INTO "sqlite_sequence" VALUES('events',1);
COMMIT;
PRAGMA user_version = 1;
