//! Tool sets, and tools as plain JSON.

use crate::support::{Bench, block_on};
use placet_core::{Effect, Status};
use placet_tools::{CallContext, Definition, Grant, NoArguments, Options, ToolSet, ToolSetError, capability, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct City {
    /// Which one.
    city: String,
}

fn set() -> ToolSet {
    let weather = tool("weather", "Tells it.", |args: City, _cx| async move { format!("sunny in {}", args.city) });
    let order = tool("order", "Orders an umbrella.", |_: NoArguments, _cx| async { "ordered" }).effect(Effect::Once);
    let now = tool("now", "Tells the time.", |_: NoArguments, cx| async move { cx.env().now().to_string() });
    ToolSet::new([Grant::new(capability("weather").tool(weather).tool(order)), Grant::tool(now)])
}

fn names(set: &ToolSet) -> Vec<String> {
    set.definitions().unwrap().iter().map(|definition| definition.name.to_string()).collect()
}

#[test]
fn a_set_owns_selects_and_narrows() {
    let set = set();
    assert!(set.owns("weather") && set.owns("now") && !set.owns("then"));
    assert_eq!(names(&set), ["weather", "order", "now"]);
    assert_eq!(names(&set.select(["now", "weather"])), ["weather", "now"]);
    assert_eq!(names(&set.read_only()), ["weather", "now"]);
    assert_eq!(names(&set.read_only().select(["now"])), ["now"]);
    let error = set.select(["now", "then"]).definitions().map(<[_]>::len).expect_err("there is no such tool");
    assert!(error.to_string().contains("\"then\""), "{error}");
}

#[test]
fn a_set_runs_what_it_holds_and_hands_back_the_rest() {
    block_on(async {
        let bench = Bench::new(Vec::<Grant>::new(), Options::default());
        let set = set().read_only();
        let result = set.run(&bench.call("weather", json!({"city": "Oslo"})), bench.cx()).await.unwrap();
        assert_eq!(result.outcome.text(), "sunny in Oslo");
        let wrong = set.run(&bench.call("weather", json!({})), bench.cx()).await.unwrap();
        assert_eq!(wrong.outcome.status, Status::Mistaken);
        for name in ["then", "order"] {
            let error = set.run(&bench.call(name, json!({})), CallContext::new(&bench.env)).await;
            assert!(matches!(error, Err(ToolSetError::NotOurs { .. })), "{name}");
        }
    });
}

#[test]
fn a_tool_and_a_set_are_plain_json_for_every_provider() {
    let set = set().select(["weather"]);
    let schema = json!({
        "type": "object", "properties": {"city": {"description": "Which one.", "type": "string"}},
        "required": ["city"], "additionalProperties": false
    });
    let all = [set.to_anthropic(), set.to_openai_responses(), set.to_openai_chat(), set.to_mcp()];
    for (rendered, pointer) in
        all.into_iter().zip(["/0/input_schema", "/0/parameters", "/0/function/parameters", "/0/inputSchema"])
    {
        assert_eq!(rendered.unwrap().pointer(pointer), Some(&schema), "{pointer}");
    }
    let gemini = set.to_gemini().unwrap();
    assert_eq!(gemini.pointer("/0/functionDeclarations/0/parametersJsonSchema"), Some(&schema));
    let single = tool("weather", "Tells it.", |args: City, _cx| async move { args.city }).build();
    assert_eq!(single.to_anthropic().unwrap(), set.to_anthropic().unwrap()[0]);
    assert_eq!(single.to_openai_responses().unwrap(), set.to_openai_responses().unwrap()[0]);
    assert_eq!(single.to_openai_chat().unwrap(), set.to_openai_chat().unwrap()[0]);
    assert_eq!(single.to_gemini().unwrap(), gemini[0]["functionDeclarations"][0]);
    assert_eq!(single.to_mcp().unwrap(), set.to_mcp().unwrap()[0]);
    let bare = Definition::from((**single.definition()).clone());
    assert_eq!(bare.to_mcp().unwrap(), single.to_mcp().unwrap());
}

#[test]
fn nothing_of_a_broken_binding_reaches_a_provider() {
    block_on(async {
        let definition = Definition::new("weather", "Tells it.", json!({"town": {"type": "string", "required": true}}));
        let broken = definition.bind(|args: City, _cx| async move { args.city }).build();
        assert!(broken.to_anthropic().is_err());
        let set = ToolSet::new([broken]);
        assert!(set.to_openai_chat().is_err() && set.to_gemini().is_err() && set.definitions().is_err());
        let bench = Bench::new(Vec::<Grant>::new(), Options::default());
        let run = set.run(&bench.call("weather", json!({"town": "Oslo"})), bench.cx()).await;
        assert!(matches!(run, Err(ToolSetError::Wiring(errors)) if errors.to_string().contains("`/town`")));
    });
}
