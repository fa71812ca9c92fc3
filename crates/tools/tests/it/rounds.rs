//! Rounds: results in call order, parallel where tools allow it, bounded.

use crate::support::{Bench, block_on, reason};
use placet_core::{Effect, Status};
use placet_testkit::recording::Recording;
use placet_tools::{Grant, Options, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Mutex};

#[derive(Deserialize, JsonSchema)]
struct Named {
    name: String,
    turns: usize,
}

/// Which handlers ran, as `+name` and `-name`, and the most that ran at once.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<(Vec<String>, usize, usize)>>);

impl Log {
    fn tool(&self, name: &str, effect: Effect) -> placet_tools::ToolBuilder<Named> {
        let log = self.clone();
        tool(name, "Takes some turns.", move |args: Named, _cx| {
            let log = log.clone();
            async move {
                {
                    let mut log = log.0.lock().unwrap();
                    log.0.push(format!("+{}", args.name));
                    log.1 += 1;
                    log.2 = log.2.max(log.1);
                }
                for _ in 0..args.turns {
                    tokio::task::yield_now().await;
                }
                let mut log = log.0.lock().unwrap();
                log.0.push(format!("-{}", args.name));
                log.1 -= 1;
                args.name
            }
        })
        .effect(effect)
    }
}

fn grants(log: &Log) -> [Grant; 3] {
    [
        Grant::tool(log.tool("read", Effect::Read)),
        Grant::tool(log.tool("write", Effect::Once)),
        Grant::tool(log.tool("alone", Effect::Read).exclusive()),
    ]
}

#[test]
fn results_come_in_call_order_and_what_must_run_alone_does() {
    block_on(async {
        let log = Log::default();
        let bench = Bench::new(grants(&log), Options::default());
        let steps = [
            ("read", "a", 5),
            ("read", "b", 1),
            ("write", "c", 3),
            ("read", "d", 2),
            ("alone", "e", 1),
            ("nothing", "f", 0),
            ("write", "g", 0),
        ];
        let calls: Vec<_> =
            steps.iter().map(|(tool, name, turns)| bench.call(tool, json!({"name": name, "turns": turns}))).collect();
        let results = bench.pipeline.run_round(&calls, &bench.cx()).await.unwrap();
        let answered: Vec<_> = results.iter().map(|result| result.call.clone()).collect();
        assert_eq!(answered, calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>());
        let texts: Vec<_> = results
            .iter()
            .filter(|result| result.outcome.status == Status::Completed)
            .map(|result| result.outcome.text())
            .collect();
        assert_eq!(texts, ["a", "b", "c", "d", "e", "g"]);
        assert_eq!(reason(&results[5]), "unknown_tool");
        let order = log.0.lock().unwrap().0.join(" ");
        assert_eq!(order, "+a +b -b -a +c -c +d -d +e -e +g -g");
    });
}

#[test]
fn no_more_run_at_once_than_the_limit_says() {
    block_on(async {
        for limit in [1, 3] {
            let log = Log::default();
            let bench = Bench::new(grants(&log), Options::default().concurrency(limit));
            let calls: Vec<_> = (0..9)
                .map(|number| bench.call("read", json!({"name": number.to_string(), "turns": 9 - number})))
                .collect();
            let results = bench.pipeline.run_round(&calls, &bench.cx()).await.unwrap();
            assert_eq!(results.iter().map(|result| result.outcome.text()).collect::<String>(), "012345678");
            assert_eq!(log.0.lock().unwrap().2, limit);
        }
    });
}

#[test]
fn a_failing_record_is_told_when_all_calls_of_the_round_have_ended() {
    block_on(async {
        let log = Log::default();
        let recording = Recording::new();
        recording.break_down();
        let bench = Bench::new(grants(&log), Options::default().recorder(recording));
        let calls: Vec<_> = (0..3).map(|_| bench.call("read", json!({"name": "x", "turns": 1}))).collect();
        assert!(bench.pipeline.run_round(&calls, &bench.cx()).await.is_err());
    });
}

#[test]
fn a_cancelled_round_is_answered_whole() {
    block_on(async {
        let log = Log::default();
        let bench = Bench::new(grants(&log), Options::default());
        let token = tokio_util::sync::CancellationToken::new();
        let calls: Vec<_> = ["write", "read", "write"]
            .iter()
            .map(|tool| bench.call(tool, json!({"name": tool, "turns": 60})))
            .collect();
        let cx = bench.cx().cancelled_by(token.clone());
        let cancel = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            token.cancel();
        };
        let (results, ()) = tokio::join!(bench.pipeline.run_round(&calls, &cx), cancel);
        let results = results.unwrap();
        // The write that had begun is heard out; nothing after it begins.
        assert_eq!(results[0].outcome.status, Status::Completed);
        assert!(
            results[1..].iter().all(|result| reason(result) == "cancelled" && result.outcome.status == Status::Refused)
        );
        assert_eq!(log.0.lock().unwrap().0, ["+write", "-write"]);
    });
}
