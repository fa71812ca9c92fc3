//! Tools that a provider runs itself: asked for by kind, in words of ours, and mapped to what each provider calls them.
//!
//! They run outside our pipeline. What one provider has and another lacks is refused before anything is sent.

use crate::open::open_enum;
use crate::part::Native;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

open_enum! {
    /// A tool that the provider runs itself, or defines and lets the caller run.
    pub enum HostedTool {
        /// Searches the web.
        WebSearch(WebSearch) = "web_search",
        /// Fetches pages.
        WebFetch(WebFetch) = "web_fetch",
        /// Reads the pages whose addresses stand in the conversation.
        UrlContext(HostedOptions) = "url_context",
        /// Searches documents that the provider holds.
        FileSearch(FileSearch) = "file_search",
        /// Runs code in a sandbox of the provider.
        CodeInterpreter(CodeInterpreter) = "code_interpreter",
        /// A shell: of the provider, or the caller's own.
        Shell(HostedOptions) = "shell",
        /// Proposes changes of files, which the caller applies.
        ApplyPatch(HostedOptions) = "apply_patch",
        /// Uses a computer, whose screen the caller holds.
        ComputerUse(ComputerUse) = "computer_use",
        /// Edits files, which the caller holds.
        TextEditor(HostedOptions) = "text_editor",
        /// Keeps notes, which the caller holds.
        Memory(HostedOptions) = "memory",
        /// Makes pictures.
        ImageGeneration(HostedOptions) = "image_generation",
        /// Finds tools among those whose definitions are not loaded at first.
        ToolSearch(HostedOptions) = "tool_search",
        /// An MCP server that the provider talks to.
        RemoteMcp(RemoteMcp) = "remote_mcp",
        /// A tool of one provider, in its own words.
        Raw(Native) = "raw",
    }
}

/// Options in the provider's own words. A field of these replaces ours of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostedOptions {
    /// The options, merged into the tool's form.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Searching the web.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebSearch {
    /// The most searches in one answer. A constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    /// Only these domains. A restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// None of these domains. A restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
    /// How much of the pages to read: `low`, `medium`, `high`. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<String>,
    /// Where the person is, in the provider's form. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_location: Option<Value>,
    /// Options in the provider's own words.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Fetching pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebFetch {
    /// The most fetches in one answer. A constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    /// Only these domains. A restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// None of these domains. A restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
    /// Options in the provider's own words.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Searching documents that the provider holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSearch {
    /// Where: vector stores, corpora.
    pub stores: Vec<String>,
    /// The most documents. A constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u64>,
    /// A filter in the provider's form. A restriction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Value>,
    /// Options in the provider's own words.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Running code in a sandbox of the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeInterpreter {
    /// The container to use, in the provider's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Value>,
    /// Files that it may read, by the provider's ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Options in the provider's own words.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Using a computer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComputerUse {
    /// What sort: `browser`, `linux`, `mac`, `windows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The width of the screen in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// The height of the screen in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    /// Options in the provider's own words.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// What became of one MCP server that the provider talked to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct McpUse {
    /// What it is called.
    pub server: String,
    /// How often the provider listed its tools. What it listed stays in the conversation, so that once is enough.
    pub listings: u64,
    /// The tools that it has, by their names there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// How many of them the provider called.
    pub calls: u64,
    /// How many of those calls failed.
    pub failures: u64,
    /// How many calls the provider asked leave for.
    pub approvals: u64,
}

/// An MCP server that the provider talks to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteMcp {
    /// What to call it.
    pub label: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Or which connector of the provider it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    /// The token to reach it with. A credential: never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<String>,
    /// Only these of its tools. A restriction; empty is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// None of these of its tools. A restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// Which of its calls the provider has to ask about, in the provider's form. A restriction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<Value>,
    /// Options in the provider's own words.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}
