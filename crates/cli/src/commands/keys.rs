//! `placet keys`: keys for the gateway, which knows them by their hashes alone.

use crate::args::KeysCommand;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use placet_core::record::Digest;
use std::io::Read as _;

/// Random bytes of a new key.
const BYTES: usize = 32;

pub(crate) fn keys(house: &House, command: &KeysCommand) -> Done {
    let output = &house.output;
    match command {
        KeysCommand::New { name } => {
            if name.trim().is_empty() || name.chars().any(char::is_control) {
                return Err(Failure::new(Code::Usage, "the name of a key is empty or holds a control character")
                    .hint("name whose key it is, for example: placet keys new ann"));
            }
            let mut random = [0; BYTES];
            house.env.random().fill(&mut random);
            let key = format!("pk_{}", hex(&random));
            let hash = Digest::of(key.as_bytes()).to_string();
            if output.json {
                output.json_line(&serde_json::json!({"key": key, "sha256": hash}));
            } else {
                output.line(&key);
                output.note(&format!(
                    "The key is shown this once. For placet.toml:\n\n[keys.{}]\nsha256 = \"{hash}\"",
                    toml_key(name)
                ));
            }
            Ok(())
        }
        KeysCommand::Hash => {
            let mut key = String::new();
            std::io::stdin()
                .read_to_string(&mut key)
                .map_err(|error| Failure::new(Code::Failed, format!("standard input cannot be read: {error}")))?;
            let key = key.trim();
            if key.is_empty() {
                return Err(Failure::new(Code::Usage, "expected a key on standard input")
                    .hint("for example: printf %s \"$KEY\" | placet keys hash"));
            }
            output.line(&Digest::of(key.as_bytes()).to_string());
            Ok(())
        }
    }
}

/// A name as a key of TOML: bare where it may be, else in quotes. It holds no control character.
fn toml_key(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot go wrong.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
