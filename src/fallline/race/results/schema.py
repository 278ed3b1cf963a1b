"""The tables of a race's results file, and how files of earlier formats become files of this one."""

from __future__ import annotations

from fallline.measure.store import Schema

_RUN = """
create table run (
    id integer primary key, started real not null, ended real, machine text not null, command text not null
);
"""

_CALIBRATION = """
create table calibration (
    workload text not null references workload, contestant text not null references contestant,
    step_seconds real not null, low real not null, high real not null, switch_seconds real not null,
    state_bytes integer not null, parameter_bytes integer not null, peak_bytes integer,
    machine text not null, taken real not null, scale real not null default 1,
    primary key (workload, contestant)
);
"""

_SESSIONS = """
create table session (
    id integer primary key, workload text not null references workload, cpu_obstacle text, machine text not null,
    taken real not null
);
create table sample (
    session integer not null references session, contestant text not null references contestant,
    part text not null, round integer not null, wall real not null, cpu real,
    primary key (session, contestant, part, round)
) without rowid;
"""

# Contestants that were measured side by side have the same description of the machine, load included, and as many
# samples.  The table of costs is made anew without the samples: older SQLite cannot drop a column.
_SAMPLES_BY_ROUND = f"""
{_SESSIONS}
insert into session
    select min(rowid), workload, 'was not measured', machine, min(taken) from calibration
    where json_array_length(samples) > 0 group by workload, machine, scale, json_array_length(samples);
with old as (
    select contestant, samples,
    min(rowid) over (partition by workload, machine, scale, json_array_length(samples)) as session
    from calibration where json_array_length(samples) > 0
)
insert into sample
    select old.session, old.contestant, 'step', each.key, each.value, null from old, json_each(old.samples) each;
alter table calibration rename to calibration_of_before;
{_CALIBRATION}
insert into calibration
    select workload, contestant, step_seconds, low, high, switch_seconds, state_bytes, parameter_bytes, peak_bytes,
    machine, taken, scale from calibration_of_before;
drop table calibration_of_before;
"""

_LOOK = """
create table look (number integer primary key, studies integer not null, data text not null, taken real not null);
"""

SCHEMA = Schema(
    name="race results",
    application_id=0x466C5263,
    version=3,
    statements="""
create table setting (name text primary key, value text not null);
create table workload (
    name text primary key, spec text not null, facts text not null, changes text not null,
    target real, target_from text, untrained real, problem text
);
create table contestant (name text primary key, definition text not null);
create table trial (
    id integer primary key, kind text not null, workload text not null references workload,
    contestant text not null references contestant, study integer not null, number integer not null,
    seed integer not null, point text not null, max_steps integer, status text, steps integer,
    steps_to_target integer, seconds_to_target real, training_seconds real, evaluation_seconds real,
    attempts integer not null default 0, note text, ended real,
    unique (kind, workload, contestant, study, number)
);
create table evaluation (
    trial integer not null references trial, step integer not null, value real, loss real,
    training_seconds real not null, at real not null,
    primary key (trial, step)
) without rowid;
"""
    + _CALIBRATION
    + _SESSIONS
    + _RUN
    + _LOOK,
    upgrades=(_RUN + "alter table calibration add column scale real not null default 1;", _SAMPLES_BY_ROUND + _LOOK),
)
