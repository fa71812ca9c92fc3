//! Where the boards are that a command is about: in the store here, or at a server.

use super::args::PlaceArgs;
use crate::failure::{Code, Failure};
use crate::house::House;
use crate::vars;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use placet_board::Boards;
use placet_board::http::{BoardsEndpoint, Body, Broken};
use placet_core::Secret;
use placet_net::{Client, ClientOptions, ProxySettings, Request, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The most bytes of an answer that is read whole.
const ANSWER_BYTES: usize = 256 << 20;

/// Who answers.
pub(super) enum Place {
    Here(BoardsEndpoint),
    There { client: Client, base: Url, token: Option<Secret> },
}

/// An answer that was read whole.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl Place {
    pub(super) async fn of(house: &House, args: &PlaceArgs) -> Result<Self, Failure> {
        let Some(url) = &args.url else {
            let store = house.open_store().await?;
            let boards = Boards::new(store, house.tenant.clone(), &house.env);
            return Ok(Place::Here(BoardsEndpoint::new(boards, "")));
        };
        let token = match &args.token_file {
            None => None,
            Some(path) => Some(Secret::new("the board's token", super::file(path)?.trim().to_owned())),
        };
        let proxies = ProxySettings::from_vars(|name: &str| vars::var(name))?;
        let client = Client::new(ClientOptions::default().proxies(proxies), house.env.clone())?;
        let base = Url::parse(url).map_err(|error| {
            Failure::new(Code::Usage, error.to_string()).hint("for example http://127.0.0.1:8090/v1")
        })?;
        Ok(Place::There { client, base, token })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send("GET", path, String::new()).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: String) -> Result<Answer, Failure> {
        match self {
            Place::Here(endpoint) => {
                let answer = endpoint.handle(request(method, path, body)?).await;
                let status = answer.status().as_u16();
                let body = match answer.into_body() {
                    Body::Whole(bytes) => bytes,
                    Body::Stream(pieces) => pieces.try_collect::<Vec<_>>().await.map_err(broke_off)?.concat().into(),
                };
                Ok(Answer { status, body })
            }
            Place::There { .. } => {
                let response = self.ask(method, path, body).await?;
                let status = response.status.as_u16();
                Ok(Answer { status, body: response.bytes(ANSWER_BYTES).await? })
            }
        }
    }

    async fn ask(&self, method: &str, path: &str, body: String) -> Result<placet_net::Response, Failure> {
        let Place::There { client, base, token } = self else {
            return Err(Failure::new(Code::Failed, "the boards are here"));
        };
        let method = method.parse().map_err(|_| Failure::new(Code::Failed, "no such method"))?;
        let mut request = Request::new(method, base.join(path)?);
        if !body.is_empty() {
            request = request.header("content-type", "application/json")?;
            request.body = body.into();
        }
        if let Some(token) = token {
            request = request.bearer(token)?;
        }
        Ok(client.send(request, &CancellationToken::new()).await?)
    }

    /// Hands an answer over piece by piece, as it comes.
    pub(super) async fn stream(&self, path: &str, mut take: impl FnMut(&[u8])) -> Result<(), Failure> {
        match self {
            Place::Here(endpoint) => {
                let answer = endpoint.handle(request("GET", path, String::new())?).await;
                let status = answer.status().as_u16();
                match answer.into_body() {
                    Body::Whole(body) => Answer { status, body }.ok(),
                    Body::Stream(mut pieces) => {
                        while let Some(piece) = pieces.next().await {
                            take(&piece.map_err(broke_off)?);
                        }
                        Ok(())
                    }
                }
            }
            Place::There { .. } => {
                let response = self.ask("GET", path, String::new()).await?;
                let status = response.status.as_u16();
                if status != 200 {
                    return Answer { status, body: response.bytes(ANSWER_BYTES).await? }.ok();
                }
                let mut body = response.body;
                while let Some(piece) = body.chunk().await {
                    take(&piece?);
                }
                Ok(())
            }
        }
    }
}

fn broke_off(_: Broken) -> Failure {
    Failure::new(Code::Failed, "the answer broke off").hint("what came before is true, but not all; try again")
}

fn request(method: &str, path: &str, body: String) -> Result<http::Request<Bytes>, Failure> {
    let request = http::Request::builder().method(method).uri(path).body(Bytes::from(body));
    request.map_err(|error| Failure::new(Code::Failed, format!("{path} is no address: {error}")))
}

impl Answer {
    pub(super) fn json(&self) -> Result<Value, Failure> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::new(Code::Failed, format!("status {} with a body that is not JSON: {error}", self.status))
                .hint("is it a server of boards, and does the URL end where /boards begins?")
        })
    }

    /// Whether it went well.
    pub(super) fn ok(&self) -> Result<(), Failure> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }
        let body = self.json()?;
        let told = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let code = match self.status {
            404 => Code::NotFound,
            409 | 410 => Code::Conflict,
            400 => Code::Usage,
            _ => Code::Failed,
        };
        let failure = Failure::new(code, told("detail"));
        Err(match told("error").as_str() {
            "unknown_board" => failure.hint("`placet board list` shows the boards, `placet board create` opens one"),
            "unauthorised" => failure.hint("--token-file names a file with a token"),
            _ => failure,
        })
    }

    pub(super) fn done(&self) -> Result<Value, Failure> {
        self.ok()?;
        self.json()
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.ok()?;
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::new(Code::Failed, format!("an answer that no board gives: {error}")))
    }
}

/// A name as a segment of a path.
pub(super) fn segment(name: &str) -> String {
    placet_net::percent_encoded(name)
}
