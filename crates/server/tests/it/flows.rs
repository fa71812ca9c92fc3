//! Flows of a configuration: behind models' names, behind webhooks, and by the clock.

use crate::support::{serve, served_config};
use placet_core::Env;
use placet_core::record::Digest;
use placet_testkit::upstream::{Answer, Upstream};
use serde_json::json;

async fn told(answers: usize) -> Upstream {
    let answers = (0..answers).map(|_| Answer::json(200, &json!({})));
    Upstream::start(&Env::system(), answers).await.unwrap()
}

const AGENTS: &str = "[agents.one]\nmodel = \"echo:echo\"\n[agents.two]\nmodel = \"echo:echo\"\n";

fn ask(model: &str) -> String {
    json!({"model": model, "messages": [{"role": "user", "content": "good morning"}]}).to_string()
}

#[tokio::test]
async fn a_flow_of_the_file_answers_and_what_follows_the_answer_is_done_behind_the_clients_back() {
    let hook = told(1).await;
    let flow = format!(
        "{AGENTS}[flows.desk]\nsteps = [{{ all = [\"one\", \"two\"] }}, {{ respond = true }}, {{ notify = \"{}\" }}]\n",
        hook.url("bell")
    );
    let served = serve(&flow).await;
    let answer = served.post_with("/v1/chat/completions", "", &ask("desk")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let said = answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(said.matches("good morning").count(), 2, "{said}");
    hook.arrived(1).await;
    let received = hook.received().remove(0);
    let notice = received.json();
    assert_eq!((received.path.as_str(), notice["text"].as_str().unwrap().contains("good morning")), ("/bell", true));
    assert_eq!(received.header("idempotency-key"), notice["key"].as_str());
    let ids: Vec<String> = served.get("/v1/models", "").await.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["one", "two", "desk"]);
}

#[tokio::test]
async fn webhooks_answer_or_are_accepted() {
    let hook = told(1).await;
    let flows = format!(
        "{AGENTS}[flows.bell]\nsteps = [{{ webhook = \"bell\" }}, \"one\", {{ notify = \"{}\" }}]\n\
         [flows.ask]\nsteps = [{{ webhook = \"ask\" }}, \"one\", {{ respond = true }}]\n",
        hook.url("rang")
    );
    let served = serve(&flows).await;
    let accepted = served.post("/v1/hooks/bell", "{\"who\": \"postman\"}").await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    assert!(accepted.json()["accepted"].is_string());
    hook.arrived(1).await;
    let answered = served.post("/v1/hooks/ask", "").await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert!(answered.header("content-type").unwrap().starts_with("text/plain"));
    assert_eq!(served.post("/v1/hooks/nobody", "{}").await.status, 404);
    assert_eq!(served.post("/v1/hooks/bell", "{").await.status, 400);
    // Flows that only a trigger sets off are no models.
    assert_eq!(served.post("/v1/chat/completions", &ask("bell")).await.status, 404);
}

#[tokio::test]
async fn triggers_follow_the_file_when_it_is_read_again() {
    let hook = told(2).await;
    let flows = |startup: bool, every: bool| {
        let mut text = AGENTS.to_owned();
        if startup {
            text += &format!("[flows.boot]\nsteps = [{{ startup = true }}, {{ notify = \"{}\" }}]\n", hook.url("up"));
        }
        if every {
            text += "[flows.yearly]\nsteps = [{ every = \"0 0 1 1 *\" }, \"one\"]\n";
        }
        text
    };
    let served = serve(&flows(true, true)).await;
    hook.arrived(1).await;
    let jobs = || async { served.jobs("every:").await };
    served.jobs_until("every:", 1).await;
    // What happens at startup does not happen again, and what repeats is as the file says.
    served.gateway.reload(served_config(&flows(true, false))).unwrap();
    served.jobs_until("every:", 0).await;
    served.gateway.reload(served_config(&flows(true, true))).unwrap();
    served.jobs_until("every:", 1).await;
    assert_eq!((jobs().await, hook.received().len()), (1, 1));
}

#[tokio::test]
async fn a_key_sets_off_only_what_it_may_ask_for() {
    let key = |name: &str, models: &str| {
        format!("[keys.{name}]\nsha256 = \"{}\"\nmodels = [\"{models}\"]\n", Digest::of(name.as_bytes()))
    };
    let flow = "[flows.bell]\nsteps = [{ webhook = \"bell\" }, \"one\", { respond = true }]\n";
    let served = serve(&format!("{}{}{AGENTS}{flow}", key("ann", "bell"), key("bob", "two"))).await;
    let ring =
        async |name: &str| served.post_with("/v1/hooks/bell", &format!("x-api-key: {name}\r\n"), "{}").await.status;
    assert_eq!((ring("ann").await, ring("bob").await, ring("eve").await), (200, 404, 401));
}
