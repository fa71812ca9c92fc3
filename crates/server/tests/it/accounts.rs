//! What is written down and counted: of agents, of webhooks, of what was refused, of targets that failed.

use crate::support::{Served, provider, serve, serve_limited};
use placet_core::Env;
use placet_core::record::Digest;
use placet_server::{Asked, Limiter, Principal, Refusal, Reservation, Spent};
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::json;
use std::sync::{Arc, Mutex};

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

const CHAT: &str = "/v1/chat/completions";

fn ask(model: &str) -> String {
    json!({"model": model, "messages": [{"role": "user", "content": "good morning"}]}).to_string()
}

async fn metric(served: &Served, line: &str) -> String {
    let metrics = served.get("/metrics", "").await.text();
    metrics.lines().find_map(|found| found.strip_prefix(line)).unwrap_or("absent").trim().to_owned()
}

#[tokio::test]
async fn an_agents_exchange_is_counted_priced_and_written_down_with_who_answered() {
    let upstream = upstream([Answer::stream(chat::answer("hello")), Answer::stream(chat::answer("hello"))]).await;
    let config = provider(
        &upstream.url("v1"),
        "\"openai_chat\"",
        "[models.fast]\ntarget = \"mine:real\"\nprice = { input = \"1000000\", output = \"0\" }\n\
         [agents.house]\nmodel = \"fast\"\n",
    );
    let served = serve(&config).await;
    let answer = served.post(CHAT, &ask("house")).await;
    assert_eq!((answer.status, answer.header("x-placet-provider")), (200, Some("mine")), "{}", answer.text());
    assert_eq!(answer.header("x-placet-cost"), Some("10"));
    let streamed = json!({"model": "house", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(served.post(CHAT, &streamed.to_string()).await.status, 200);
    let exchange = "placet_requests_total{model=\"house\",provider=\"placet\",target=\"agent\",outcome=\"whole\"}";
    assert_eq!(metric(&served, exchange).await, "2");
    let turn = "model=\"fast\",provider=\"mine\",target=\"real\"";
    assert_eq!(metric(&served, &format!("placet_requests_total{{{turn},outcome=\"whole\"}}")).await, "2");
    assert_eq!(metric(&served, &format!("placet_tokens_total{{{turn},kind=\"output\"}}")).await, "10");
    let ledger = served.ledger().await;
    assert_eq!(ledger.len(), 2);
    for line in &ledger {
        assert_eq!((&*line.model, &*line.provider, &*line.provider_model), ("house", "mine", "real"), "{line:?}");
        assert_eq!((line.cost.unwrap().to_string().as_str(), line.usage.unwrap().output), ("$10", 5));
    }
}

#[tokio::test]
async fn an_agent_on_a_route_names_the_target_that_answered_and_the_one_that_did_not_has_failed() {
    let a = upstream([Answer::json(503, &json!({"error": {"message": "full"}}))]).await;
    let b = upstream([Answer::stream(chat::answer("hello"))]).await;
    let one = |name: &str, upstream: &Upstream| format!("[providers.{name}]\nbase_url = \"{}\"\n", upstream.url("v1"));
    let more = "[routes.safe]\ntargets = [\"a:one\", \"b:two\"]\n[agents.house]\nmodel = \"safe\"\n";
    let served = serve(&format!("{}{}{more}", one("a", &a), one("b", &b))).await;
    let answer = served.post(CHAT, &ask("house")).await;
    assert_eq!((answer.status, answer.header("x-placet-provider")), (200, Some("b")), "{}", answer.text());
    let of = |provider: &str, target: &str, outcome: &str| {
        format!(
            "placet_requests_total{{model=\"safe\",provider=\"{provider}\",target=\"{target}\",outcome=\"{outcome}\"}}"
        )
    };
    assert_eq!(metric(&served, &of("a", "one", "failed")).await, "1");
    assert_eq!(metric(&served, &of("b", "two", "whole")).await, "1");
    let ledger = served.ledger().await;
    assert_eq!((&*ledger[0].provider, &*ledger[0].provider_model), ("b", "two"));
}

#[tokio::test]
async fn a_target_that_is_fallen_back_from_has_failed() {
    let a = upstream([Answer::json(529, &json!({"error": {"message": "full"}}))]).await;
    let b = upstream([Answer::json(200, &json!({"usage": {"prompt_tokens": 1, "completion_tokens": 1}}))]).await;
    let one = |name: &str, upstream: &Upstream| format!("[providers.{name}]\nbase_url = \"{}\"\n", upstream.url("v1"));
    let route = "[routes.safe]\ntargets = [\"a:one\", \"b:two\"]\n";
    let served = serve(&format!("{}{}{route}", one("a", &a), one("b", &b))).await;
    assert_eq!(served.post(CHAT, &ask("safe")).await.status, 200);
    let of = |provider: &str, target: &str, outcome: &str| {
        format!(
            "placet_requests_total{{model=\"safe\",provider=\"{provider}\",target=\"{target}\",outcome=\"{outcome}\"}}"
        )
    };
    assert_eq!(metric(&served, &of("a", "one", "failed")).await, "1");
    assert_eq!(metric(&served, &of("b", "two", "whole")).await, "1");
    assert_eq!(metric(&served, "placet_fallbacks_total{model=\"safe\",provider=\"a\",target=\"one\"}").await, "1");
}

/// Lets two requests in, and keeps what it was asked and told.
#[derive(Debug, Default)]
struct Two {
    asked: Mutex<Vec<String>>,
    told: Mutex<Vec<bool>>,
}

impl Limiter for Two {
    fn before(&self, _: &Principal, asked: &Asked<'_>) -> Result<Reservation, Refusal> {
        let mut all = self.asked.lock().unwrap();
        all.push(asked.model.to_owned());
        match all.len() {
            0..=2 => Ok(Reservation(7)),
            _ => Err(Refusal::new(429, placet_core::ErrorKind::RateLimited, "enough for today")),
        }
    }

    fn after(&self, _: &Principal, reservation: Reservation, spent: &Spent) {
        assert_eq!(reservation, Reservation(7));
        self.told.lock().unwrap().push(spent.is_whole);
    }
}

#[tokio::test]
async fn a_webhook_asks_the_limiter_and_leaves_a_line() {
    let limiter = Arc::new(Two::default());
    let flows = "[agents.one]\nmodel = \"echo:echo\"\n\
                 [flows.ask]\nsteps = [{ webhook = \"ask\" }, \"one\", { respond = true }]\n\
                 [flows.bell]\nsteps = [{ webhook = \"bell\" }, \"one\"]\n";
    let served = serve_limited(flows, limiter.clone()).await;
    let answered = served.post("/v1/hooks/ask", "{}").await;
    assert!(answered.header("x-run-id").unwrap().starts_with("run_"), "{}", answered.head);
    assert_eq!(served.post("/v1/hooks/bell", "{}").await.status, 202);
    let refused = served.post("/v1/hooks/ask", "{}").await;
    assert_eq!((refused.status, refused.text().contains("enough for today")), (429, true));
    assert_eq!(served.post("/v1/hooks/nobody", "{}").await.status, 404);
    assert_eq!(*limiter.asked.lock().unwrap(), ["ask", "bell", "ask"]);
    assert_eq!(*limiter.told.lock().unwrap(), [true, true]);
    let ledger = served.ledger().await;
    let lines: Vec<(&str, &str, u16, &str)> =
        ledger.iter().map(|line| (&*line.protocol, &*line.model, line.status, &*line.outcome)).collect();
    // What the bell set off may be done before the end, or not.
    let called: Vec<_> = lines.into_iter().filter(|line| line.0 != "later").collect();
    assert_eq!(
        called,
        [
            ("webhook", "ask", 200, "whole"),
            ("webhook", "bell", 202, "whole"),
            ("webhook", "ask", 429, "refused"),
            ("webhook", "", 404, "refused"),
        ]
    );
    assert_eq!((&*ledger[0].provider, &*ledger[0].key), ("echo", "local"));
}

#[tokio::test]
async fn what_is_refused_leaves_a_line_with_who_asked_where_that_is_known() {
    let key = format!("[keys.ann]\nsha256 = \"{}\"\nmodels = [\"house\"]\n", Digest::of(b"k-ann"));
    let served = serve(&format!("{key}[models.house]\ntarget = \"echo\"\n[models.other]\ntarget = \"echo\"\n")).await;
    let ann = "authorization: Bearer k-ann\r\n";
    assert_eq!(served.post(CHAT, &ask("house")).await.status, 401);
    assert_eq!(served.post_with(CHAT, ann, &ask("other")).await.status, 404);
    assert_eq!(served.post_with("/v1/messages", ann, "[").await.status, 400);
    assert_eq!(served.get("/v1/models", "").await.status, 401, "which asks no model");
    assert_eq!(served.get(CHAT, ann).await.status, 405);
    let ledger = served.ledger().await;
    let lines: Vec<(&str, &str, &str, u16)> =
        ledger.iter().map(|line| (&*line.key, &*line.protocol, &*line.model, line.status)).collect();
    assert_eq!(
        lines,
        [("", "openai_chat", "", 401), ("ann", "openai_chat", "other", 404), ("ann", "anthropic_messages", "", 400),]
    );
    assert!(ledger.iter().all(|line| line.outcome == "refused" && line.provider.is_empty()), "{ledger:?}");
}

#[tokio::test]
async fn what_we_refuse_is_no_failure_of_the_provider() {
    let upstream = upstream([]).await;
    let route = "[models.house]\ntarget = \"mine:real\"\n[routes.strict]\ntargets = [\"house\"]\nstrict = true\n";
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", route)).await;
    // A hint that the target has no word for, on a route that leaves nothing out.
    let body = json!({"model": "strict", "max_tokens": 9, "top_k": 3, "messages": [{"role": "user", "content": "hi"}]});
    let answer = served.post("/v1/messages", &body.to_string()).await;
    assert_eq!((answer.status, upstream.received().len()), (400, 0), "{}", answer.text());
    let failed = "placet_requests_total{model=\"strict\",provider=\"mine\",target=\"real\",outcome=\"failed\"}";
    assert_eq!(metric(&served, failed).await, "0");
    assert_eq!(metric(&served, "placet_refused_total{status=\"400\"}").await, "1");
    let ledger = served.ledger().await;
    assert_eq!((&*ledger[0].outcome, &*ledger[0].provider, ledger[0].status), ("refused", "", 400), "{ledger:?}");
}

#[tokio::test]
async fn an_estimate_is_nobodys() {
    let upstream = upstream([]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let answer = served.post("/v1/messages/count_tokens", &ask("m")).await;
    assert_eq!((answer.status, answer.header("x-placet-estimated")), (200, Some("input_tokens")), "{}", answer.text());
    assert_eq!(answer.header("x-placet-provider"), None);
    let ledger = served.ledger().await;
    assert_eq!((&*ledger[0].provider, &*ledger[0].provider_model, &*ledger[0].outcome), ("", "", "whole"));
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn an_agent_that_fails_names_who_failed_it() {
    let upstream = upstream([Answer::json(400, &json!({"error": {"message": "no such thing"}}))]).await;
    let served =
        serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "[agents.house]\nmodel = \"mine:real\"\n")).await;
    assert_ne!(served.post(CHAT, &ask("house")).await.status, 200);
    let ledger = served.ledger().await;
    assert_eq!((&*ledger[0].provider, &*ledger[0].provider_model), ("mine", "real"), "{ledger:?}");
    assert_eq!((&*ledger[0].outcome, ledger[0].usage), ("failed", None));
}

#[tokio::test]
async fn what_an_agents_turn_used_is_written_down_although_the_client_went_away() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let upstream = upstream([Answer::stream([chat::usage(7, 3), chat::text("a")]).then_silence()]).await;
    let served =
        serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "[agents.house]\nmodel = \"mine:real\"\n")).await;
    let body = json!({"model": "house", "stream": true, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("\"a\"") {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        told.extend_from_slice(&piece[..length]);
    }
    drop(stream);
    upstream.hung_up(1).await;
    let ledger = served.lines_until(1).await;
    assert_eq!((&*ledger[0].outcome, &*ledger[0].provider), ("cancelled", "mine"), "{ledger:?}");
    assert_eq!(ledger[0].usage.map(|usage| (usage.input, usage.output)), Some((7, 3)), "{ledger:?}");
}
