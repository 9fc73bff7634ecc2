-- A data folder of the first release, whose PRAGMA user_version is 0.
BEGIN TRANSACTION;
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "about" VALUES('cluster_timestamp','1795176633479');
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    launched INTEGER NOT NULL,
    completed INTEGER,
    interrupted INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "attempts" VALUES(1,1,1,1795176633628,1795176633705,0);
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
);
INSERT INTO "jobs" VALUES(1,'old','admin','default','{"jobName": "old", "image": "python", "taskRoles": [{"name": "main", "command": "echo done; exit 3", "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0}]}','{"jobName": "old", "image": "python", "taskRoles": [{"name": "main", "command": "echo done; exit 3", "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "taskNumber": 1, "shmMB": 64, "portList": [], "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "gpuType": "", "virtualCluster": "default", "retryCount": 0}','FRAMEWORK_COMPLETED','START',0,0,1795176633619,1795176633705,3,'UNKNOWN','task main-0 ended with exit code 3; the last lines of its log:
done',0);
INSERT INTO "jobs" VALUES(3,'waiting','admin','default','{"jobName": "waiting", "image": "python", "taskRoles": [{"name": "main", "command": "true", "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0}]}','{"jobName": "waiting", "image": "python", "taskRoles": [{"name": "main", "command": "true", "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "taskNumber": 1, "shmMB": 64, "portList": [], "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "gpuType": "", "virtualCluster": "default", "retryCount": 0}','FRAMEWORK_WAITING','START',0,0,1795176633742,NULL,NULL,NULL,NULL,0);
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
);
INSERT INTO "tasks" VALUES('container_1795176633479_0001_01_000002',1,'main',0,'000001-old/attempt1/main-0','{"http": [26205], "ssh": [27985]}',0,10039,'1359427',3);
CREATE TABLE users (
    name TEXT PRIMARY KEY, password TEXT NOT NULL, admin INTEGER NOT NULL, virtual_clusters TEXT NOT NULL
);
INSERT INTO "users" VALUES('admin','88f8064dc7b5064a3da754fe0d20eb91$2b07057545e1f9f3866d3205f4bb05ff3cec1e01abba6d3a4aaff184a808a85a',1,'default');
INSERT INTO "users" VALUES('bob','b3b3ff10335523b890b01c22f2eef6fc$a5f0a02dee9f314ad4579eddb53dbc04441eb77a2ae558113beaa9c5138ce689',0,'');
CREATE UNIQUE INDEX jobs_by_name ON jobs (name) WHERE NOT deleted;
CREATE INDEX jobs_by_state ON jobs (sub_state);
CREATE INDEX attempts_by_job ON attempts (job_id);
CREATE INDEX tasks_by_attempt ON tasks (attempt_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',3);
INSERT INTO "sqlite_sequence" VALUES('attempts',2);
COMMIT;
