//! Flows of a configuration: behind models' names, behind webhooks, and by the clock.

use crate::support::{serve, served_config};
use placet_core::Env;
use placet_core::record::Digest;
use placet_testkit::upstream::{Answer, Upstream, chat};
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

#[tokio::test]
async fn what_begins_at_startup_begins_when_it_comes_and_what_is_taken_out_ends() {
    let hook = told(3).await;
    let boot =
        |name: &str| format!("[flows.{name}]\nsteps = [{{ startup = true }}, {{ notify = \"{}\" }}]\n", hook.url(name));
    let bell = "[flows.bell]\nsteps = [{ webhook = \"bell\" }, \"one\", { respond = true }]\n\
                [flows.yearly]\nsteps = [{ every = \"0 0 1 1 *\" }, \"one\"]\n";
    let served = serve(&format!("{AGENTS}{}{bell}", boot("first"))).await;
    hook.arrived(1).await;
    served.jobs_until("every:", 1).await;
    assert_eq!(served.post("/v1/hooks/bell", "{}").await.status, 200);
    served.gateway.reload(served_config(&format!("{AGENTS}{}{}", boot("first"), boot("second")))).unwrap();
    hook.arrived(2).await;
    assert_eq!(served.post("/v1/hooks/bell", "{}").await.status, 404);
    served.jobs_until("every:", 0).await;
    // Where no flow is left, nothing of them goes on either.
    served.gateway.reload(served_config(&format!("{AGENTS}{bell}"))).unwrap();
    served.jobs_until("every:", 1).await;
    served.gateway.reload(served_config("[models.m]\ntarget = \"echo:echo\"\n")).unwrap();
    served.jobs_until("every:", 0).await;
    served.gateway.reload(served_config(&format!("{AGENTS}{}", boot("third")))).unwrap();
    hook.arrived(3).await;
    let paths: Vec<String> = hook.received().into_iter().map(|one| one.path).collect();
    assert_eq!(paths, ["/first", "/second", "/third"]);
}

#[tokio::test]
async fn a_webhook_is_done_once_for_each_key() {
    let hook = told(4).await;
    let flows = format!(
        "{AGENTS}[flows.bell]\nsteps = [{{ webhook = \"bell\", key_header = \"X-GitHub-Delivery\" }}, {{ notify = \"{0}\" }}]\n\
         [flows.ask]\nsteps = [{{ webhook = \"ask\" }}, \"one\", {{ notify = \"{0}\" }}, {{ respond = true }}]\n",
        hook.url("rang")
    );
    let served = serve(&flows).await;
    let ring =
        async |id: &str, header: &str, body: &str| served.post_with(&format!("/v1/hooks/{id}"), header, body).await;
    let delivery = "x-github-delivery: d1\r\n";
    let first = ring("bell", delivery, "{\"a\":1}").await;
    assert_eq!(first.status, 202, "{}", first.text());
    hook.arrived(1).await;
    let again = ring("bell", delivery, "{\"a\":1}").await;
    assert_eq!((again.status, again.json()), (202, first.json()));
    assert_eq!(ring("bell", delivery, "{\"a\":2}").await.status, 409, "the same key for something else");
    assert_eq!(ring("bell", "x-github-delivery: d2\r\n", "{\"a\":1}").await.status, 202);
    hook.arrived(2).await;
    let key = "idempotency-key: k1\r\n";
    let first = ring("ask", key, "{}").await;
    assert_eq!(first.status, 200, "{}", first.text());
    let again = ring("ask", key, "{}").await;
    assert_eq!((again.status, again.text(), again.header("x-run-id")), (200, first.text(), first.header("x-run-id")));
    assert_eq!(ring("ask", key, "{\"other\":1}").await.status, 409);
    // Without a key each call is one of its own.
    assert_eq!(ring("ask", "", "{}").await.status, 200);
    assert_eq!(hook.received().len(), 4);
}

#[tokio::test]
async fn work_behind_the_clients_back_leaves_a_line() {
    let hook = told(2).await;
    let model = Upstream::start(&Env::system(), (0..2).map(|_| Answer::stream(chat::answer("done")))).await.unwrap();
    let flows = format!(
        "[providers.mine]\nbase_url = \"{1}\"\n[models.m]\ntarget = \"mine:real\"\nprice = {{ input = \"1\", output = \"1\" }}\n[agents.one]\nmodel = \"m\"\n\
         [flows.desk]\nsteps = [\"one\", {{ respond = true }}, \"one\", {{ notify = \"{0}\" }}]\n\
         [flows.bad]\nsteps = [{{ webhook = \"bad\" }}, {{ notify = \"http://127.0.0.1:9/nobody\" }}]\n",
        hook.url("done"),
        model.url("v1")
    );
    let served = serve(&flows).await;
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    assert_eq!(served.post_with("/v1/chat/completions", trace, &ask("desk")).await.status, 200);
    hook.arrived(1).await;
    let lines = served.lines_until(2).await;
    let later = lines.iter().find(|line| line.protocol == "later").unwrap();
    assert_eq!((&*later.model, &*later.provider, &*later.outcome, later.status), ("desk", "mine", "whole", 200));
    assert!(later.usage.is_some() && later.cost.is_some() && later.id.starts_with("run_"), "{later:?}");
    assert_eq!((&*later.key, &*later.trace), (&*lines[0].key, "0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(served.post("/v1/hooks/bad", "{}").await.status, 202);
    let lines = served.lines_until(4).await;
    let failed = lines.iter().find(|line| line.protocol == "later" && line.model == "bad").unwrap();
    assert!(failed.outcome == "failed" && !failed.problem.is_empty(), "{failed:?}");
}
