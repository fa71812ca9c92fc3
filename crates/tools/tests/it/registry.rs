//! The registry: all errors at once, stable bytes, instructions in order, the lifecycle.

use crate::support::block_on;
use placet_core::Env;
use placet_tools::{
    AnyArguments, BoundTool, Capability, Definition, Grant, Lifecycle, NoArguments, Registry, ToolBuilder, WiringError,
    capability, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Mutex};

fn say(name: &str) -> ToolBuilder<NoArguments> {
    tool(name, "Says it.", |_: NoArguments, _cx| async { "hello" })
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

#[test]
fn a_duplicate_name_names_both_capabilities() {
    let first = capability("files").tool(say("read"));
    let second = capability("web").tool(say("read"));
    let error = Registry::assemble([first, second]).expect_err("two tools of one name");
    assert_eq!(
        error.to_string(),
        "the tool \"read\" is provided by \"files\" and by \"web\"; rename one, or narrow a grant"
    );
    // Narrowed, there is nothing wrong.
    let first = Grant::new(capability("files").tool(say("read")).tool(say("list"))).only(["list"]);
    assert!(Registry::assemble([first, Grant::new(capability("web").tool(say("read")))]).is_ok());
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let weather = Definition::new("weather", "Tells it.", json!({"city": {"type": "integer", "required": true}}));
    let grants = [
        Grant::new(capability(" ").tool(say(""))),
        Grant::new(capability("a").tool(say("with space")).tool(say("fine"))),
        Grant::new(capability("a").tool(say("fine"))),
        Grant::new(capability("b").tool(tool("mute", " ", |_: NoArguments, _cx| async {}))),
        Grant::new(capability("c").tool(weather.bind(|_: City, _cx| async {}))),
        Grant::new(
            capability("d").tool(Definition::new("odd", "Is odd.", json!([])).bind(|_: AnyArguments, _cx| async {})),
        ),
        Grant::new(
            capability("e").tool(
                Definition::new("broken", "Is broken.", json!({"a": {"type": "strin"}}))
                    .bind(|_: AnyArguments, _cx| async {}),
            ),
        ),
        Grant::new(capability("f").tool(tool("example", "Takes ['a', 'b'].", |_: NoArguments, _cx| async {}))),
        Grant::new(capability("g").tool(say("stale").revision("revision"))),
        Grant::new(capability("h").tool(say("here"))).only(["there"]),
    ];
    let errors = Registry::assemble(grants).expect_err("much is wrong");
    let kinds: Vec<&str> = errors
        .iter()
        .map(|error| match error {
            WiringError::BlankCapability => "blank capability",
            WiringError::BlankName { .. } => "blank name",
            WiringError::BadName { .. } => "bad name",
            WiringError::DuplicateCapability { .. } => "duplicate capability",
            WiringError::DuplicateTool { .. } => "duplicate tool",
            WiringError::NoDescription { .. } => "no description",
            WiringError::BrokenBinding { .. } => "broken binding",
            WiringError::InvalidSchema { .. } => "invalid schema",
            WiringError::BadExample { .. } => "bad example",
            WiringError::NoRevisionArgument { .. } => "no revision argument",
            WiringError::NoSuchTool { .. } => "no such tool",
            _ => "something else",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "blank capability",
            "blank name",
            "bad name",
            "duplicate capability",
            "duplicate tool",
            "no description",
            "broken binding",
            "broken binding",
            "invalid schema",
            "bad example",
            "no revision argument",
            "no such tool"
        ]
    );
    assert!(errors.to_string().contains("`/city`: the definition says integer, the handler takes string"), "{errors}");
}

#[test]
fn a_definition_stays_bare_and_may_be_bound_more_than_once() {
    let definition = Definition::new("weather", "Tells it.", json!({"city": {"type": "string", "required": true}}));
    let real = definition.bind(|args: City, _cx| async move { args.city }).build();
    let stub = definition.bind(|_: AnyArguments, _cx| async { "sunny" }).build();
    assert_eq!(real.definition(), stub.definition());
    assert_eq!(**real.definition(), *definition.as_definition());
    // A definition off the wire is bare: it has no handler that could run, until somebody binds one.
    let wire = Definition::from((**real.definition()).clone());
    assert_eq!(wire.as_definition(), definition.as_definition());
}

#[test]
fn adding_a_capability_appends_and_leaves_every_byte_before_it() {
    let bytes = |count: usize| {
        let grants = ["clock", "files", "web", "mail"].into_iter().take(count).map(|id| {
            Grant::new(
                capability(id)
                    .instructions(format!("use {id} well"))
                    .tool(say(&format!("{id}_a")))
                    .tool(say(&format!("{id}_b"))),
            )
        });
        let registry = Registry::assemble(grants).unwrap();
        let definitions = registry.definitions().iter().map(|definition| serde_json::to_string(definition).unwrap());
        (definitions.collect::<Vec<_>>().join(","), registry.instruct(Some("be brief")).unwrap().to_string())
    };
    for count in 1..4 {
        let (now, more) = (bytes(count), bytes(count + 1));
        assert_eq!(now, bytes(count), "the same bytes each time");
        assert!(more.0.starts_with(&now.0) && more.0.len() > now.0.len());
        assert!(more.1.starts_with(&now.1) && more.1.len() > now.1.len());
    }
    assert_eq!(bytes(2).1, "be brief\n\nuse clock well\nuse files well");
}

#[test]
fn instructions_skip_what_has_none() {
    let grants = || {
        [
            capability("a").instructions("first"),
            capability("b"),
            capability("c").instructions(" "),
            capability("d").instructions("last"),
        ]
    };
    let registry = Registry::assemble(grants()).unwrap();
    assert_eq!(registry.instructions().map(|text| &**text), Some("first\nlast"));
    assert_eq!(registry.instruct(None).as_deref(), Some("first\nlast"));
    let none = Registry::empty();
    assert_eq!((none.instructions(), none.instruct(Some("only"))), (None, Some("only".into())));
    assert!(none.definitions().is_empty() && none.grant_records().is_empty());
}

#[test]
fn grants_are_recorded_as_they_were_narrowed() {
    let held =
        capability("files").tool(say("read")).tool(say("list")).tool(say("write").effect(placet_core::Effect::Once));
    let records = |grant: Grant| Registry::assemble([grant]).unwrap().grant_records();
    let names = |grant: Grant| records(grant)[0].tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(Grant::new(held.clone())), ["read", "list", "write"]);
    assert_eq!(names(Grant::new(held.clone()).read_only()), ["read", "list"]);
    assert_eq!(names(Grant::new(held.clone()).only(["write", "read"]).read_only()), ["read"]);
    let single = records(Grant::tool(say("now")));
    assert_eq!((single[0].capability.as_str(), single[0].unredacted), ("now", false));
    assert!(records(Grant::new(held).unredacted())[0].unredacted);
}

/// Tells what happens to it.
struct Counted {
    id: &'static str,
    fails: bool,
    log: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Capability for Counted {
    fn id(&self) -> placet_core::CapabilityId {
        self.id.into()
    }

    fn tools(&self) -> Vec<BoundTool> {
        let log = self.log.clone();
        let count = tool(format!("{}_count", self.id), "Counts.", move |_: NoArguments, _cx| {
            let count = log.lock().unwrap().len();
            async move { count }
        });
        vec![count.build()]
    }

    async fn start(&self, _: &Lifecycle) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.log.lock().unwrap().push(format!("start {}", self.id));
        if self.fails { Err("no port".into()) } else { Ok(()) }
    }

    async fn stop(&self, _: &Lifecycle) {
        self.log.lock().unwrap().push(format!("stop {}", self.id));
    }
}

#[test]
fn capabilities_start_in_order_and_stop_the_other_way_round() {
    block_on(async {
        let log = Arc::new(Mutex::new(Vec::new()));
        let counted = |id, fails| Grant::new(Counted { id, fails, log: log.clone() });
        let lifecycle = Lifecycle::new(&Env::system());
        let sound = Registry::assemble([counted("a", false), counted("b", false)]).unwrap();
        sound.start(&lifecycle).await.unwrap();
        sound.stop(&lifecycle).await;
        assert_eq!(*log.lock().unwrap(), ["start a", "start b", "stop b", "stop a"]);
        log.lock().unwrap().clear();
        let broken = Registry::assemble([counted("a", false), counted("b", true), counted("c", false)]).unwrap();
        let error = broken.start(&lifecycle).await.expect_err("b cannot start");
        assert_eq!(error.to_string(), "the capability \"b\" could not start: no port");
        assert_eq!(*log.lock().unwrap(), ["start a", "start b", "stop a"]);
    });
}
