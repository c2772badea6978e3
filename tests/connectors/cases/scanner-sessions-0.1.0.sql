BEGIN TRANSACTION;
CREATE TABLE desks (device TEXT PRIMARY KEY, mode TEXT NOT NULL,
    session INTEGER);
INSERT INTO "desks" VALUES('dock','pick',5);
INSERT INTO "desks" VALUES('belt','receive',NULL);
CREATE TABLE repeats (identity TEXT PRIMARY KEY, key TEXT NOT NULL,
    until REAL NOT NULL);
INSERT INTO "repeats" VALUES('e8571610749f1102250f3245063044d0','scan:dock:eaa6334c7dd5d0d25e6f431694f5a06c',1000000600.0);
CREATE TABLE scans (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    session INTEGER, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
    what TEXT NOT NULL, second REAL NOT NULL);
INSERT INTO "scans" VALUES(1,'scan:dock:1:d91e9092d12b770c1f63b89b6a81260a',1,'',0,'order 1000 begun: scan its articles, then BH-CLOSE',0.0);
INSERT INTO "scans" VALUES(2,'scan:dock:2:8b2af23c8cd8636599a4cf3e0be22cd2',1,'C',1,'1 x C for order 1000, 1 so far',0.0);
INSERT INTO "scans" VALUES(3,'scan:dock:3:8fb67371a7a158e127f65cbaff5522b3',1,'',0,'order 1000 finished',0.0);
INSERT INTO "scans" VALUES(4,'scan:dock:4:c95a94ccb3cbb9911737b519559bfd1a',2,'',0,'order 1002 begun: scan its articles, then BH-CLOSE',0.0);
INSERT INTO "scans" VALUES(5,'scan:dock:5:fd28a9eada40e553f82e69686a740837',2,'D',2,'2 x D for order 1002, 2 so far',0.0);
INSERT INTO "scans" VALUES(6,'scan:dock:6:8fb67371a7a158e127f65cbaff5522b3',2,'',0,'order 1002 finished',0.0);
INSERT INTO "scans" VALUES(7,'scan:dock:7:263406821ffc4979e1d8decbfc93bace',3,'',0,'order 1003 begun: scan its articles, then BH-CLOSE',0.0);
INSERT INTO "scans" VALUES(8,'scan:dock:8:32e9e3f0086bbee5692e80e984411eaf',3,'A',1,'1 x A for order 1003, 1 so far',0.0);
INSERT INTO "scans" VALUES(9,'scan:dock:9:8fb67371a7a158e127f65cbaff5522b3',3,'',0,'order 1003 finished',0.0);
INSERT INTO "scans" VALUES(10,'once:96383f1dee9a28bb704ecae9',4,'E',1,'1 x E for the count, 1 so far',0.0);
INSERT INTO "scans" VALUES(11,'once:5d75a2809519f6ddec59dead',4,'E',1,'1 x E for the count, 2 so far',0.0);
INSERT INTO "scans" VALUES(12,'scan:belt:1:8282c588f23df482581b61f8ecde33e6',4,'F',12,'12 x F for the count, 12 so far',0.0);
INSERT INTO "scans" VALUES(13,'once:ff22ba0d1532a60b909679e1',NULL,'',0,'dock is set to pick now',0.0);
INSERT INTO "scans" VALUES(14,'once:b3734bde2a45faa540234512',5,'',0,'order 1001 begun: scan its articles, then BH-CLOSE',0.0);
INSERT INTO "scans" VALUES(15,'once:277b72c07506cc35e42918a5',5,'B',1,'1 x B for order 1001, 1 so far',0.0);
INSERT INTO "scans" VALUES(16,'once:b0f40817cbb0f33a155747f0',5,'A',1,'1 x A for order 1001, 1 so far',0.0);
INSERT INTO "scans" VALUES(17,'once:c7bea321a3680fef41bba175',5,'',0,'parcel 1Z999AA10123456784 for order 1001',0.0);
INSERT INTO "scans" VALUES(18,'scan:dock:10:32e9e3f0086bbee5692e80e984411eaf',5,'A',1,'1 x A for order 1001, 2 so far',0.0);
INSERT INTO "scans" VALUES(19,'scan:belt:r:77a7b2ded86db69b79bdf89fb0be1304',NULL,'',0,'belt is set to receive now',0.0);
CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE, device TEXT NOT NULL, mode TEXT NOT NULL,
    order_name TEXT NOT NULL, order_bare TEXT NOT NULL, tracking_company TEXT,
    tracking_number TEXT, shipped_at TEXT, state TEXT NOT NULL, what TEXT NOT NULL,
    wanted BLOB);
INSERT INTO "sessions" VALUES(1,'9e5fb59a5464fba960c05349','dock','pick','1000','1000',NULL,NULL,NULL,'done','order 1000 finished with 1 units',NULL);
INSERT INTO "sessions" VALUES(2,'5ce7f9c4fcf2a5a8266ba717','dock','pick','1002','1002',NULL,NULL,NULL,'closed','',NULL);
INSERT INTO "sessions" VALUES(3,'b70a73ffcc88e23040b1b143','dock','pick','1003','1003',NULL,NULL,NULL,'refused','order 1003 has 0 open of SKU ''A'', not 1',NULL);
INSERT INTO "sessions" VALUES(4,'295f606e9acf943d85b11319','belt','count','','',NULL,NULL,NULL,'open','',NULL);
INSERT INTO "sessions" VALUES(5,'95eafd3644eb9595a6e16c5c','dock','pick','1001','1001',NULL,'1Z999AA10123456784',NULL,'open','',X'5B7B22736B75223A2241222C2276617269616E745F6964223A227661725F31222C226C656674223A337D2C7B22736B75223A2242222C2276617269616E745F6964223A227661725F32222C226C656674223A317D5D');
CREATE INDEX sessions_state ON sessions (state, order_bare);
CREATE INDEX scans_session ON scans (session);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sessions',5);
COMMIT;
