BEGIN TRANSACTION;
CREATE TABLE calibration (
    workload text not null references workload, contestant text not null references contestant,
    step_seconds real not null, low real not null, high real not null, switch_seconds real not null,
    state_bytes integer not null, parameter_bytes integer not null, peak_bytes integer,
    samples text not null, machine text not null, taken real not null, scale real not null default 1,
    primary key (workload, contestant)
);
INSERT INTO "calibration" VALUES('tiny','adamw',3.7060261379691849734e-04,3.62449511958410329221e-04,3.77371202520535486881e-04,0.0,4120,2052,340209664,'[]','{}',1.79498211687077522278e+09,1.0);
INSERT INTO "calibration" VALUES('tiny','schedule_free_adamw',3.95688965012759260361e-04,3.88465419922323152487e-04,3.99748826641948044012e-04,4.91687738853246593742e-05,4120,2052,340209664,'[]','{}',1.79498211687096047403e+09,1.0);
CREATE TABLE contestant (name text primary key, definition text not null);
INSERT INTO "contestant" VALUES('adamw','{"averaging": null, "optimizer": "adamw", "points": [], "schedule": "warmup_cosine", "settings": {"lr": 0.003, "one_minus_beta1": 0.18, "one_minus_beta2": 0.0041, "warmup_factor": 0.1, "weight_decay": 0.15}, "space": {"lr": {"max": 0.02, "min": 0.0005, "scaling": "log"}, "one_minus_beta1": {"max": 0.2, "min": 0.02, "scaling": "log"}, "one_minus_beta2": {"max": 0.1, "min": 0.002, "scaling": "log"}, "warmup_factor": {"feasible_points": [0.02, 0.05, 0.1]}, "weight_decay": {"max": 0.3, "min": 0.001, "scaling": "log"}}}');
INSERT INTO "contestant" VALUES('schedule_free_adamw','{"averaging": null, "optimizer": "schedule_free_adamw", "points": [], "schedule": "constant", "settings": {"lr": 0.0061, "one_minus_beta1": 0.18, "one_minus_beta2": 0.0041, "warmup_factor": 0.1, "weight_decay": 0.15}, "space": {"lr": {"max": 0.04, "min": 0.001, "scaling": "log"}, "one_minus_beta1": {"max": 0.2, "min": 0.02, "scaling": "log"}, "one_minus_beta2": {"max": 0.1, "min": 0.002, "scaling": "log"}, "warmup_factor": {"feasible_points": [0.02, 0.05, 0.1]}, "weight_decay": {"max": 0.3, "min": 0.001, "scaling": "log"}}}');
CREATE TABLE evaluation (
    trial integer not null references trial, step integer not null, value real, loss real,
    training_seconds real not null, at real not null,
    primary key (trial, step)
) without rowid;
INSERT INTO "evaluation" VALUES(1,10,7.37124967575073242187e+00,8.079113006591796875e+00,1.00784579999526613391e-02,1.7949821168994481563e+09);
INSERT INTO "evaluation" VALUES(1,20,5.84933185577392578125e+00,8.3599071502685546875e+00,1.71556239999972603982e-02,1.79498211690907335277e+09);
INSERT INTO "evaluation" VALUES(1,30,4.55321979522705078125e+00,4.62296915054321289062e+00,2.12382089999891832121e-02,1.79498211691587352756e+09);
INSERT INTO "evaluation" VALUES(1,40,3.46832966804504394531e+00,2.24210214614868164062e+00,2.6858073999960652145e-02,1.79498211692410755161e+09);
INSERT INTO "evaluation" VALUES(1,50,2.61406230926513671875e+00,3.85482025146484375e+00,3.26485419999471560004e-02,1.79498211693229389185e+09);
INSERT INTO "evaluation" VALUES(1,60,1.97701227664947509765e+00,1.63308322429656982421e+00,3.86240150000958237797e-02,1.7949821169408128261e+09);
INSERT INTO "evaluation" VALUES(1,70,1.53419423103332519531e+00,2.10266780853271484375e+00,4.4177241000056710618e-02,1.79498211694879770275e+09);
INSERT INTO "evaluation" VALUES(1,80,1.24844789505004882812e+00,6.89024388790130615234e-01,4.96619860000464541371e-02,1.79498211695670390128e+09);
INSERT INTO "evaluation" VALUES(1,90,1.08022511005401611328e+00,9.2869764566421508789e-01,5.50878240001111407764e-02,1.79498211696408915523e+09);
INSERT INTO "evaluation" VALUES(1,100,0.993733286857605,1.39684811234474182128e-01,6.04850090002173601533e-02,1.79498211697171163557e+09);
INSERT INTO "evaluation" VALUES(1,110,9.61573541164398193359e-01,1.16677033901214599609e+00,6.58148430002256645821e-02,1.79498211697900462145e+09);
INSERT INTO "evaluation" VALUES(1,120,9.56583499908447265625e-01,1.18274533748626708984e+00,7.11164350002491119084e-02,1.79498211698644113539e+09);
INSERT INTO "evaluation" VALUES(2,10,7.14723968505859375e+00,7.99069929122924804687e+00,7.36690499991254910128e-03,1.79498211699735236166e+09);
INSERT INTO "evaluation" VALUES(2,20,4.40611743927001953125e+00,6.36391592025756835937e+00,1.30271399998491688165e-02,1.79498211700504469866e+09);
INSERT INTO "evaluation" VALUES(2,30,2.34268045425415039062e+00,2.13210749626159667968e+00,1.84097929999325060634e-02,1.79498211701204133036e+09);
INSERT INTO "evaluation" VALUES(2,40,9.08071100711822509765e-01,3.66492480039596557617e-01,2.42948719999276363523e-02,1.79498211701965951917e+09);
INSERT INTO "evaluation" VALUES(2,50,2.63904362916946411132e-01,2.81261771917343139648e-01,2.8734395999890693929e-02,1.79498211702555227281e+09);
INSERT INTO "evaluation" VALUES(2,60,1.57119914889335632324e-01,1.69712856411933898925e-01,3.2739775999743869761e-02,1.79498211703102827072e+09);
INSERT INTO "evaluation" VALUES(2,70,2.213649749755859375e-01,2.85073995590209960937e-01,3.69321829997488748631e-02,1.7949821170366852284e+09);
INSERT INTO "evaluation" VALUES(2,80,0.242466539144516,1.5125903487205505371e-01,4.09526349998259320273e-02,1.79498211704228377346e+09);
INSERT INTO "evaluation" VALUES(2,90,2.07903698086738586425e-01,3.30460250377655029296e-01,4.51099909997765280422e-02,1.79498211704801368714e+09);
INSERT INTO "evaluation" VALUES(2,100,1.60389691591262817382e-01,1.19012348353862762451e-01,4.91980039997770290938e-02,1.79498211705810570715e+09);
INSERT INTO "evaluation" VALUES(2,110,1.31608903408050537109e-01,1.00031003355979919433e-01,0.0538070099999004,1.79498211706607985497e+09);
INSERT INTO "evaluation" VALUES(2,120,1.22263625264167785644e-01,1.38151302933692932128e-01,5.79223429998592109768e-02,1.79498211707187509534e+09);
INSERT INTO "evaluation" VALUES(3,10,8.10434627532959,7.98569202423095703125e+00,5.8003230000167604885e-03,1.79498211708113670354e+09);
INSERT INTO "evaluation" VALUES(3,20,5.63709878921508789062e+00,8.50847053527832,9.62336299994603905361e-03,1.79498211708633637431e+09);
INSERT INTO "evaluation" VALUES(3,30,3.62398624420166,5.0254230499267578125e+00,1.33724349999511105124e-02,1.7949821170915496349e+09);
INSERT INTO "evaluation" VALUES(3,40,2.06744074821472167968e+00,3.18681049346923828125e+00,1.72476220000135072041e-02,1.79498211709696245189e+09);
INSERT INTO "evaluation" VALUES(3,50,1.01628756523132324218e+00,8.23444068431854248046e-01,2.10851540000476234126e-02,1.79498211710236954693e+09);
CREATE TABLE run (
    id integer primary key, started real not null, ended real, machine text not null, command text not null
);
INSERT INTO "run" VALUES(1,1.79498211688266634945e+09,NULL,'{}','[]');
CREATE TABLE setting (name text primary key, value text not null);
INSERT INTO "setting" VALUES('ruleset','"external"');
INSERT INTO "setting" VALUES('trials','2');
INSERT INTO "setting" VALUES('seed','0');
INSERT INTO "setting" VALUES('self_factor','null');
INSERT INTO "setting" VALUES('clock','"calibrated"');
INSERT INTO "setting" VALUES('early_stop','false');
INSERT INTO "setting" VALUES('seconds','null');
INSERT INTO "setting" VALUES('tau_max','4.0');
INSERT INTO "setting" VALUES('reference','"adamw"');
INSERT INTO "setting" VALUES('studies','1');
INSERT INTO "setting" VALUES('file of tiny','"005a23a165a8bb7443b5225b21a69531386bd312528b9cd98d2ec24ed54b3c05"');
CREATE TABLE trial (
    id integer primary key, kind text not null, workload text not null references workload,
    contestant text not null references contestant, study integer not null, number integer not null,
    seed integer not null, point text not null, max_steps integer, status text, steps integer,
    steps_to_target integer, seconds_to_target real, training_seconds real, evaluation_seconds real,
    attempts integer not null default 0, note text, ended real,
    unique (kind, workload, contestant, study, number)
);
INSERT INTO "trial" VALUES(1,'race','tiny','adamw',0,1,754031197,'{"lr": 0.0024261298772495737, "one_minus_beta1": 0.022396201292456324, "one_minus_beta2": 0.024108388763177373, "warmup_factor": 0.02, "weight_decay": 0.003363062499505393}',120,'over budget',120,NULL,NULL,7.11164350002491119084e-02,3.32221700000445707701e-03,1,NULL,1.79498211698690581317e+09);
INSERT INTO "trial" VALUES(2,'race','tiny','schedule_free_adamw',0,1,754031197,'{"lr": 0.00782447550437714, "one_minus_beta1": 0.07853447921916944, "one_minus_beta2": 0.004383177111970421, "weight_decay": 0.006010842954998632, "warmup_factor": 0.1}',120,'over budget',120,NULL,NULL,5.79223429998592109768e-02,2.34346700005971797509e-03,1,NULL,1.79498211707206964489e+09);
INSERT INTO "trial" VALUES(3,'race','tiny','adamw',0,2,485957525,'{"lr": 0.004122871653638281, "one_minus_beta1": 0.03257747748335968, "one_minus_beta2": 0.005377488454180079, "warmup_factor": 0.05, "weight_decay": 0.025669455853081908}',120,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL);
INSERT INTO "trial" VALUES(4,'race','tiny','schedule_free_adamw',0,2,485957525,'{"lr": 0.003096487436330598, "one_minus_beta1": 0.13504387847990112, "one_minus_beta2": 0.010520259608270377, "weight_decay": 0.004893806208861994, "warmup_factor": 0.05}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL);
CREATE TABLE workload (
    name text primary key, spec text not null, facts text not null, changes text not null,
    target real, target_from text, untrained real, problem text
);
INSERT INTO "workload" VALUES('tiny','FOLDER/tiny.py','{"metric": "mse", "direction": "lower", "max_steps": 120, "eval_every": 10, "data": "data of your own"}','{}',0.05,'given',8.84704685211181640625e+00,NULL);
COMMIT;
pragma application_id = 1181504099;
pragma user_version = 2;
