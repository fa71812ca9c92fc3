//! Bounds of whole outcomes, and who may own them.

use crate::support::{Bench, block_on};
use placet_core::{Origin, Outcome, Status, ToolName};
use placet_testkit::recording::Recording;
use placet_tools::{
    BoundTool, Bounds, Capability, Grant, Keep, NoArguments, Options, Ownership, ToolError, ToolOutput, capability,
    tool,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn says(text: &str) -> placet_tools::ToolBuilder<NoArguments> {
    let text = text.to_owned();
    tool("say", "Says it.", move |_: NoArguments, _cx| {
        let text = text.clone();
        async move { text }
    })
}

#[test]
fn the_grant_stands_above_the_tool_and_the_tool_above_the_pipeline() {
    block_on(async {
        let long = "x".repeat(5000);
        let kept = async |grant: Grant, options: Options| {
            let result = Bench::new([grant], options).ask("say", json!({})).await;
            result.outcome.cut.map_or(5000, |cut| cut.kept)
        };
        let options = || Options::default().bounds(Bounds::text(3000));
        let tool = says(&long).bounds(Bounds::text(2000).keeping(Keep::Tail)).build();
        assert_eq!(kept(Grant::tool(says(&long)), Options::default()).await, 5000);
        let by_pipeline = kept(Grant::tool(says(&long)), options()).await;
        let by_tool = kept(Grant::tool(tool.clone()), options()).await;
        let by_grant = kept(Grant::tool(tool).bounds(Bounds::text(1000)), options()).await;
        assert!((2800..3000).contains(&by_pipeline), "{by_pipeline}");
        assert!((1800..2000).contains(&by_tool), "{by_tool}");
        assert!((800..1000).contains(&by_grant), "{by_grant}");
    });
}

#[test]
fn a_tool_that_cut_by_itself_is_believed_until_more_is_cut() {
    block_on(async {
        let cut = tool("cut", "Cuts.", |_: NoArguments, _cx| async {
            ToolOutput::text("10 of 90 entries").cut(10, 90, "entries")
        });
        let result = Bench::new([Grant::tool(cut)], Options::default()).ask("cut", json!({})).await;
        let cut = result.outcome.cut.unwrap();
        assert_eq!((cut.kept, cut.total, cut.unit.as_str()), (10, 90, "entries"));
    });
}

/// A capability that looks after its texts, bounds and repeats itself.
struct Board(Arc<AtomicU32>);

impl Capability for Board {
    fn id(&self) -> placet_core::CapabilityId {
        "board".into()
    }

    fn tools(&self) -> Vec<BoundTool> {
        let count = self.0.clone();
        vec![
            tool("premise", "Gives the premise, whole.", |_: NoArguments, _cx| async { "p".repeat(200_000) }).build(),
            tool("write", "Writes.", move |_: NoArguments, _cx| {
                let number = count.fetch_add(1, Ordering::SeqCst);
                async move { if number == 0 { Ok("written") } else { Err(ToolError::refused("already written")) } }
            })
            .build(),
        ]
    }

    fn ownership(&self) -> Ownership {
        Ownership { bounds: true, repeats: true }
    }

    fn word(&self, tool: &ToolName, outcome: &Outcome) -> Option<String> {
        (outcome.status == Status::Mistaken).then(|| format!("the board does not take this for {tool}"))
    }
}

#[test]
fn a_capability_may_own_its_texts_bounds_and_repeats() {
    block_on(async {
        let recording = Recording::new();
        let board = Board(Arc::new(AtomicU32::new(0)));
        let bench = Bench::new([Grant::new(board)], Options::default().recorder(recording.clone()));
        let premise = bench.ask("premise", json!({})).await;
        assert_eq!((premise.outcome.text().len(), premise.outcome.cut), (200_000, None));
        let call = bench.call("write", json!({}));
        assert_eq!(bench.run(&call).await.outcome.text(), "written");
        let again = bench.run(&call).await;
        assert_eq!((again.outcome.text().as_str(), again.outcome.repeated), ("already written", false));
        let wrong = bench.ask("write", json!({"extra": 1})).await;
        assert_eq!(wrong.outcome.text(), "the board does not take this for write");
        // What it has no say in: tools that are not there.
        assert!(bench.ask("nothing", json!({})).await.outcome.text().contains("no tool of that name"));
    });
}

#[test]
fn content_without_a_label_of_its_own_has_the_tools() {
    block_on(async {
        let labelled = |origin: Option<Origin>| {
            tool("get", "Gets.", move |_: NoArguments, _cx| {
                let output = match &origin {
                    Some(origin) => ToolOutput::text("x").origin(origin.clone()),
                    None => ToolOutput::text("x"),
                };
                async move { output }
            })
        };
        let origins = async |grant: Grant| {
            let result = Bench::new([grant], Options::default()).ask("get", json!({})).await;
            result.outcome.origin.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(origins(Grant::tool(labelled(None))).await, ["tool:get"]);
        assert_eq!(origins(Grant::tool(labelled(None).origin(Origin::File))).await, ["file"]);
        let web = Some(Origin::Web(Some("example.org".into())));
        assert_eq!(origins(Grant::tool(labelled(web).origin(Origin::File))).await, ["web:example.org"]);
        let unknown = Bench::new([Grant::new(capability("none"))], Options::default()).ask("get", json!({})).await;
        assert!(unknown.outcome.origin.contains(&Origin::Operator));
    });
}
