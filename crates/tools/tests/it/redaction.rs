//! Secrets stay home: out before anything is cut, in every place of an outcome, and off only where somebody said so.

use crate::support::{Bench, block_on};
use placet_core::event::{ApprovalRequested, EventBody};
use placet_core::part::{Inline, Media, MediaSource};
use placet_core::redact::{MARK, SecretRegistry};
use placet_core::{Part, Redactor, Secret};
use placet_testkit::recording::{Recording, Told};
use placet_tools::{
    Approver, ApproverFailure, Bounds, Decision, Grant, NoArguments, Options, PolicyFn, PolicyRequest, ToolError,
    ToolOutput, Verdict, tool,
};
use proptest::prelude::*;
use serde_json::json;

const SECRET: &str = "correct-horse-battery-staple-42";

fn redactor() -> Redactor {
    let mut registry = SecretRegistry::new();
    registry.register(Secret::new("HOUSE_KEY", SECRET));
    registry.redactor()
}

fn gives(output: ToolOutput) -> placet_tools::ToolBuilder<NoArguments> {
    tool("give", "Gives it.", move |_: NoArguments, _cx| {
        let output = output.clone();
        async move { output }
    })
}

#[test]
fn every_place_of_an_outcome_is_redacted() {
    use base64::Engine as _;
    let file = base64::engine::general_purpose::STANDARD.encode(format!("key: {SECRET}\n"));
    let document = Part::File(Media {
        source: MediaSource::Inline(Inline { base64: file.into() }),
        mime_type: Some("text/plain".into()),
        name: Some(format!("{SECRET}.txt")),
        detail: None,
        cache: None,
        native: None,
    });
    let output = ToolOutput::parts(vec![Part::text(format!("it is {SECRET}")), document])
        .payload(json!({"key": [SECRET]}))
        .fact("command", format!("curl -H {SECRET}"))
        .revision(SECRET, SECRET);
    block_on(async {
        let bench = Bench::new([Grant::tool(gives(output))], Options::default().redactor(redactor()));
        let result = bench.ask("give", json!({})).await;
        let json = serde_json::to_string(&result).unwrap();
        assert!(!json.contains(SECRET), "{json}");
        assert!(result.outcome.redactions.total() >= 6, "{:?}", result.outcome.redactions);
        assert!(!result.outcome.unredacted);
        let Part::File(media) = &result.outcome.content[1] else { panic!("a file") };
        let MediaSource::Inline(inline) = &media.source else { panic!("inline") };
        let text = base64::engine::general_purpose::STANDARD.decode(inline.base64.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), format!("key: {MARK}\n"));
    });
}

#[test]
fn errors_causes_denials_questions_and_lines_are_redacted() {
    struct Tells;
    #[async_trait::async_trait]
    impl Approver for Tells {
        async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
            Ok(Decision::deny(asked, SECRET, Some(format!("because of {SECRET}"))))
        }
    }
    block_on(async {
        let recording = Recording::new();
        let fails = || {
            tool("fail", "Fails.", |_: NoArguments, cx: placet_tools::ToolContext| async move {
                cx.log(&format!("using {SECRET}"));
                cx.progress(1.0, None, Some(&format!("step {SECRET}")));
                let error = ToolError::failed(format!("no entry with {SECRET}")).because(SECRET).detail(SECRET);
                Err::<(), _>(error)
            })
        };
        let options = || Options::default().redactor(redactor()).recorder(recording.clone());
        Bench::new([Grant::tool(fails())], options()).ask("fail", json!({})).await;
        let denies = options().policy(PolicyFn(|_: &PolicyRequest<'_>| Verdict::deny(SECRET)));
        Bench::new([Grant::tool(fails())], denies).ask("fail", json!({})).await;
        let asks = options().policy(PolicyFn(|_: &PolicyRequest<'_>| Verdict::ask(format!("{SECRET}?"))));
        Bench::new([Grant::tool(fails())], asks.approver(Tells)).ask("fail", json!({})).await;
        let told = recording.told();
        assert!(told.iter().any(|told| matches!(told, Told::Live(event) if matches!(**event, EventBody::CallLog(_)))));
        assert!(
            told.iter().any(|told| matches!(told, Told::Live(event) if matches!(**event, EventBody::CallProgress(_))))
        );
        assert!(told.iter().any(|told| matches!(told, Told::Decided(false, _))));
        assert_eq!(recording.results().len(), 3);
        assert!(!format!("{told:?}").contains(SECRET), "{told:?}");
    });
}

#[test]
fn redaction_is_off_only_where_somebody_said_so_and_then_every_outcome_says_it() {
    block_on(async {
        let leaky = || gives(ToolOutput::text(SECRET));
        let by_grant = Bench::new([Grant::tool(leaky()).unredacted()], Options::default().redactor(redactor()));
        let result = by_grant.ask("give", json!({})).await;
        assert!(result.outcome.unredacted && result.outcome.text() == SECRET);
        assert!(by_grant.pipeline.registry().grant_records()[0].unredacted);
        let by_run = Bench::new([Grant::tool(leaky())], Options::default().redactor(redactor()).unredacted(true));
        for name in ["give", "nothing"] {
            assert!(by_run.ask(name, json!({})).await.outcome.unredacted);
        }
        let by_nobody = Bench::new([Grant::tool(leaky())], Options::default().redactor(redactor()));
        let result = by_nobody.ask("give", json!({})).await;
        assert!(!result.outcome.unredacted && result.outcome.text() == MARK);
    });
}

#[test]
fn credentials_that_nobody_told_of_are_known_by_their_shape() {
    block_on(async {
        let output = ToolOutput::text("postgres://app:hunter22hunter@db/app");
        let result = Bench::new([Grant::tool(gives(output))], Options::default()).ask("give", json!({})).await;
        assert!(!result.outcome.text().contains("hunter22hunter"), "{}", result.outcome.text());
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_secret_at_the_cut_or_across_parts_leaves_no_piece(
        before in 0_usize..700, after in 0_usize..400, split in 1_usize..SECRET.len(), room in 256_usize..600, tail in any::<bool>()
    ) {
        block_on(async {
            let (first, second) = SECRET.split_at(split);
            let output = ToolOutput::parts(vec![
                Part::text(format!("{}{first}", ".".repeat(before))),
                Part::text(format!("{second}{}", ".".repeat(after))),
            ]);
            let keep = if tail { placet_tools::Keep::Tail } else { placet_tools::Keep::Head };
            let bounds = Bounds::text(room).keeping(keep);
            let bench = Bench::new([Grant::tool(gives(output)).bounds(bounds)], Options::default().redactor(redactor()));
            let text = bench.ask("give", json!({})).await.outcome.text();
            for piece in 0..=SECRET.len() - 4 {
                prop_assert!(!text.contains(&SECRET[piece..piece + 4]), "{}", text);
            }
            Ok(())
        })?;
    }
}
