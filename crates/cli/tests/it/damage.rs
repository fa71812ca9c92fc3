//! A store that was tampered with, or a place that none can be in.

use crate::bench::Bench;
use serde_json::json;

/// A home with three runs; gives their ids, the newest first.
fn three_runs(bench: &Bench) -> Vec<String> {
    let model = bench.script(json!([{ "text": "Hello." }]));
    for _ in 0..3 {
        bench.placet(&["run", "Hi", "--model", &model]).done();
    }
    let listed = bench.placet(&["runs", "list", "--json"]).done().json();
    listed.iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

fn database(bench: &Bench) -> rusqlite::Connection {
    rusqlite::Connection::open(bench.home().join("placet.db")).unwrap()
}

/// Sets a record of a run to an SQL expression.
fn damage(bench: &Bench, run: &str, number: u32, value: &str) {
    let log = format!("SELECT id FROM logs WHERE instr(name, CAST('{run}' AS BLOB)) > 0");
    let sql = format!("UPDATE entries SET value = {value} WHERE number = {number} AND log = ({log})");
    assert_eq!(database(bench).execute(&sql, []).unwrap(), 1, "{sql}");
}

#[test]
fn a_changed_first_record_does_not_verify_however_its_run_is_named() {
    let bench = Bench::new();
    let runs = three_runs(&bench);
    damage(&bench, &runs[1], 1, "CAST('garbage' AS BLOB)");
    for name in [runs[1].as_str(), &runs[1][..20]] {
        let verified = bench.placet(&["audit", "verify", name]).ended_with(6);
        assert!(verified.out.contains("NOT SOUND") && verified.out.contains("record 1"), "{verified:#?}");
        assert_eq!(verified.err, "", "nothing is left to hint at");
    }
    bench.placet(&["audit", "verify", &runs[0]]).done();
    bench.placet(&["audit", "verify"]).ended_with(6);
    let shown = bench.placet(&["runs", "show", &runs[1]]).ended_with(1);
    assert!(shown.err.contains(&format!("placet audit verify {}", runs[1])), "{shown:#?}");
}

#[test]
fn a_record_of_another_type_stops_the_audit_of_no_other_run() {
    let bench = Bench::new();
    let runs = three_runs(&bench);
    damage(&bench, &runs[1], 2, "4711");
    let verified = bench.placet(&["audit", "verify"]).ended_with(6);
    assert!(verified.out.contains("3 journals verified, 1 not sound"), "{verified:#?}");
    assert!(verified.out.contains("record 2: it cannot be read"), "{verified:#?}");
    let one = bench.placet(&["audit", "verify", &runs[1]]).ended_with(6);
    assert!(one.out.contains("record 2: it cannot be read"), "{one:#?}");
}

#[test]
fn a_line_of_another_type_leaves_the_others_listed_and_is_told() {
    let bench = Bench::new();
    let runs = three_runs(&bench);
    let sql = format!(
        "UPDATE cells SET value = 4711 WHERE instr(key, CAST('{}' AS BLOB)) > 0 \
         AND instr(key, CAST('lease' AS BLOB)) = 0",
        runs[1]
    );
    assert_eq!(database(&bench).execute(&sql, []).unwrap(), 1);
    let listed = bench.placet(&["runs", "list"]).done();
    assert!(listed.out.contains(&runs[0]) && listed.out.contains(&runs[2]) && !listed.out.contains(&runs[1]));
    assert!(listed.err.contains("placet audit verify"), "{listed:#?}");
    let verified = bench.placet(&["audit", "verify"]).ended_with(6);
    assert!(verified.out.contains("line of the list of runs cannot be read"), "{verified:#?}");
}

#[test]
fn a_list_that_was_emptied_is_told() {
    let bench = Bench::new();
    three_runs(&bench);
    database(&bench).execute("DELETE FROM cells", []).unwrap();
    let listed = bench.placet(&["runs", "list"]).done();
    assert!(listed.err.contains("3 journals are in no line of the list"), "{listed:#?}");
    let verified = bench.placet(&["audit", "verify"]).ended_with(6);
    assert!(verified.out.contains("3 journals verified, 3 not sound"), "{verified:#?}");
}

#[test]
fn doctor_tries_whether_runs_can_be_kept() {
    let bench = Bench::new();
    let file = bench.file("plain.txt", "no folder").folder().join("plain.txt");
    for home in ["/proc/nope", file.to_str().unwrap()] {
        let told = bench.placet(&["--home", home, "doctor"]).ended_with(1);
        assert!(told.out.contains("runs cannot be kept in") && told.out.contains("--home DIR"), "{told:#?}");
    }
    let told = bench.placet(&["--home", file.to_str().unwrap(), "run", "Hi"]).ended_with(1);
    assert!(told.err.contains("hint: name another one with --home DIR"), "{told:#?}");
    let told = bench.placet(&["doctor"]).done();
    assert!(told.out.contains("is made by the first run"), "{told:#?}");
    assert!(!bench.home().exists(), "it only looks");
}

#[test]
fn doctor_finds_a_damaged_page() {
    let bench = Bench::new();
    three_runs(&bench);
    bench.placet(&["doctor"]).done();
    let database = database(&bench);
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    // The root of the table of entries.
    let page: u64 =
        database.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'", [], |row| row.get(0)).unwrap();
    let size: u64 = database.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    drop(database);
    let path = bench.home().join("placet.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let start = usize::try_from((page - 1) * size).unwrap();
    bytes[start..start + 64].fill(0xee);
    std::fs::write(&path, bytes).unwrap();
    let told = bench.placet(&["doctor"]).ended_with(1);
    assert!(told.out.contains("✗ store") && told.out.contains("placet audit verify"), "{told:#?}");
    let verified = bench.placet(&["audit", "verify"]).ended_with(6);
    assert!(verified.out.contains("cannot be read"), "{verified:#?}");
}
