//! The shapes, as data.

use super::Verdict;
use super::matchers::{self, Reader, Runs};

/// One shape: how it begins, how it goes on, and the kind under which it is counted.
pub(super) struct Shape {
    pub(super) needle: &'static str,
    pub(super) kind: &'static str,
    rule: Rule,
    /// How many bytes from its beginning a secret of this shape may extend; a longer text is no secret, or is cut there.
    pub(super) reach: usize,
}

/// Which characters the body of a token has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum,
    /// Those, `-` and `_`.
    Url,
    /// Those and `.`.
    Dotted,
    /// Letters, digits, `+`, `/`, `=`.
    Base64,
    /// What a bearer token may have: letters, digits, `-._~+/=`.
    Token,
}

#[derive(Clone, Copy)]
enum Rule {
    /// At least so many characters of a class follow.
    Token(Class, usize),
    /// The same, and they must look random: for beginnings that also begin common words.
    Dense(Class, usize),
    /// Exactly so many characters follow, and none that would go on.
    Exact(Class, usize),
    Jwt,
    PrivateKey,
    Userinfo,
    Bearer,
    Authorization,
    /// A name, `=` or `:`, and a value that looks random.
    Named,
    /// A name, `=` or `:`, and the 40 characters of an AWS secret.
    AwsSecret,
}

const KEY_REACH: usize = 4096;

const fn shape(kind: &'static str, needle: &'static str, rule: Rule) -> Shape {
    let reach = match rule {
        Rule::PrivateKey => 32 * 1024,
        Rule::Jwt => 16 * 1024,
        Rule::Userinfo => 1024,
        _ => KEY_REACH,
    };
    Shape { needle, kind, rule, reach }
}

impl Shape {
    /// Whether `bytes` begin as this shape does; letters in any case, as the automaton reads them.
    pub(super) fn begins(&self, bytes: &[u8]) -> bool {
        bytes.get(..self.needle.len()).is_some_and(|start| start.eq_ignore_ascii_case(self.needle.as_bytes()))
    }

    pub(super) fn matches(&self, reader: Reader<'_>, at: usize, runs: &mut Runs) -> Verdict {
        let body = at + self.needle.len();
        let exact_case =
            matches!(self.rule, Rule::Token(..) | Rule::Dense(..) | Rule::Exact(..) | Rule::Jwt | Rule::PrivateKey);
        if exact_case && !reader.bytes[at..].starts_with(self.needle.as_bytes()) {
            return Verdict::None;
        }
        match self.rule {
            Rule::Token(class, least) => matchers::token(reader, at, body, class, least, false, runs),
            Rule::Dense(class, least) => matchers::token(reader, at, body, class, least, true, runs),
            Rule::Exact(class, length) => matchers::exact(reader, at, body, class, length),
            Rule::Jwt => matchers::jwt(reader, at, runs),
            Rule::PrivateKey => matchers::private_key(reader, at, body),
            Rule::Userinfo => matchers::userinfo(reader, at, body),
            Rule::Bearer => matchers::bearer(reader, at, body, runs),
            Rule::Authorization => matchers::authorization(reader, body, runs),
            Rule::Named => matchers::named(reader, body, runs, matchers::looks_random),
            Rule::AwsSecret => matchers::named(reader, body, runs, matchers::aws_secret),
        }
    }
}

/// Values that documentation is full of and that open nothing.
pub(super) const HARMLESS: &[&str] = &["AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"];

/// Longest first where one beginning starts another: of two matches at one place the first row names the kind.
pub(super) static SHAPES: &[Shape] = &[
    shape("private_key", "-----BEGIN ", Rule::PrivateKey),
    shape("url_password", "://", Rule::Userinfo),
    shape("jwt", "eyJ", Rule::Jwt),
    shape("authorization", "authorization", Rule::Authorization),
    shape("authorization", "bearer", Rule::Bearer),
    // Model providers.
    shape("anthropic_key", "sk-ant-", Rule::Token(Class::Url, 20)),
    shape("openrouter_key", "sk-or-", Rule::Dense(Class::Url, 20)),
    shape("openai_key", "sk-proj-", Rule::Token(Class::Url, 20)),
    shape("openai_key", "sk-svcacct-", Rule::Token(Class::Url, 20)),
    shape("openai_key", "sk-admin-", Rule::Dense(Class::Url, 20)),
    // OpenAI's older keys, and those of DeepSeek, Moonshot, LiteLLM and others who took the form over.
    shape("openai_key", "sk-", Rule::Dense(Class::Url, 20)),
    shape("google_key", "AIza", Rule::Token(Class::Url, 35)),
    shape("google_key", "AQ.Ab", Rule::Token(Class::Url, 30)),
    shape("google_oauth", "ya29.", Rule::Token(Class::Dotted, 20)),
    shape("google_oauth", "GOCSPX-", Rule::Token(Class::Url, 20)),
    shape("google_oauth", "1//0", Rule::Dense(Class::Url, 40)),
    shape("xai_key", "xai-", Rule::Dense(Class::Url, 40)),
    shape("groq_key", "gsk_", Rule::Token(Class::Alnum, 40)),
    shape("perplexity_key", "pplx-", Rule::Token(Class::Alnum, 40)),
    shape("cerebras_key", "csk-", Rule::Dense(Class::Url, 30)),
    shape("fireworks_key", "fw_", Rule::Dense(Class::Alnum, 20)),
    shape("nvidia_key", "nvapi-", Rule::Token(Class::Url, 40)),
    shape("together_key", "tgp_v1_", Rule::Token(Class::Url, 30)),
    shape("huggingface_token", "hf_", Rule::Dense(Class::Alnum, 30)),
    shape("huggingface_token", "api_org_", Rule::Dense(Class::Alnum, 30)),
    shape("replicate_token", "r8_", Rule::Dense(Class::Alnum, 30)),
    shape("tavily_key", "tvly-", Rule::Dense(Class::Url, 20)),
    shape("langsmith_key", "lsv2_pt_", Rule::Token(Class::Url, 30)),
    shape("langsmith_key", "lsv2_sk_", Rule::Token(Class::Url, 30)),
    shape("pinecone_key", "pcsk_", Rule::Token(Class::Url, 40)),
    shape("e2b_key", "e2b_", Rule::Dense(Class::Alnum, 30)),
    // Clouds.
    shape("aws_key_id", "AKIA", Rule::Exact(Class::Alnum, 16)),
    shape("aws_key_id", "ASIA", Rule::Exact(Class::Alnum, 16)),
    shape("aws_key_id", "ABIA", Rule::Exact(Class::Alnum, 16)),
    shape("aws_key_id", "ACCA", Rule::Exact(Class::Alnum, 16)),
    shape("aws_secret", "secret_access_key", Rule::AwsSecret),
    shape("aws_secret", "secretaccesskey", Rule::AwsSecret),
    shape("azure_key", "AccountKey=", Rule::Token(Class::Base64, 40)),
    shape("azure_key", "SharedAccessKey=", Rule::Token(Class::Base64, 40)),
    shape("alibaba_key", "LTAI", Rule::Exact(Class::Alnum, 20)),
    shape("tencent_key", "AKID", Rule::Exact(Class::Alnum, 32)),
    shape("digitalocean_token", "dop_v1_", Rule::Token(Class::Alnum, 40)),
    shape("digitalocean_token", "doo_v1_", Rule::Token(Class::Alnum, 40)),
    shape("digitalocean_token", "dor_v1_", Rule::Token(Class::Alnum, 40)),
    shape("fly_token", "fm2_", Rule::Token(Class::Base64, 60)),
    shape("heroku_key", "HRKU-", Rule::Token(Class::Url, 30)),
    shape("databricks_token", "dapi", Rule::Exact(Class::Alnum, 32)),
    shape("supabase_key", "sbp_", Rule::Dense(Class::Alnum, 30)),
    shape("supabase_key", "sb_secret_", Rule::Token(Class::Url, 20)),
    shape("planetscale_token", "pscale_tkn_", Rule::Token(Class::Dotted, 30)),
    shape("planetscale_token", "pscale_pw_", Rule::Token(Class::Dotted, 30)),
    shape("vault_token", "hvs.", Rule::Token(Class::Url, 24)),
    shape("vault_token", "hvb.", Rule::Token(Class::Url, 24)),
    shape("doppler_token", "dp.pt.", Rule::Token(Class::Alnum, 40)),
    shape("onepassword_token", "ops_eyJ", Rule::Token(Class::Base64, 100)),
    shape("age_key", "AGE-SECRET-KEY-1", Rule::Token(Class::Alnum, 50)),
    // Code and packages.
    shape("github_token", "github_pat_", Rule::Token(Class::Url, 22)),
    shape("github_token", "ghp_", Rule::Token(Class::Url, 30)),
    shape("github_token", "gho_", Rule::Token(Class::Url, 30)),
    shape("github_token", "ghu_", Rule::Token(Class::Url, 30)),
    shape("github_token", "ghs_", Rule::Token(Class::Dotted, 30)),
    shape("github_token", "ghr_", Rule::Token(Class::Url, 30)),
    shape("gitlab_token", "glpat-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "gldt-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "glrt-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "glptt-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "glft-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "glcbt-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "glsoat-", Rule::Token(Class::Dotted, 20)),
    shape("gitlab_token", "glagent-", Rule::Token(Class::Dotted, 20)),
    shape("npm_token", "npm_", Rule::Dense(Class::Alnum, 30)),
    shape("pypi_token", "pypi-", Rule::Token(Class::Url, 50)),
    shape("crates_token", "cio", Rule::Exact(Class::Alnum, 32)),
    shape("rubygems_key", "rubygems_", Rule::Token(Class::Alnum, 40)),
    shape("docker_token", "dckr_pat_", Rule::Token(Class::Url, 20)),
    shape("docker_token", "dckr_oat_", Rule::Token(Class::Url, 20)),
    shape("sentry_token", "sntrys_", Rule::Token(Class::Token, 40)),
    shape("sentry_token", "sntryu_", Rule::Token(Class::Token, 40)),
    shape("grafana_token", "glsa_", Rule::Token(Class::Url, 30)),
    shape("grafana_token", "glc_", Rule::Dense(Class::Base64, 32)),
    shape("newrelic_key", "NRAK-", Rule::Token(Class::Alnum, 20)),
    shape("postman_key", "PMAK-", Rule::Token(Class::Url, 40)),
    shape("atlassian_token", "ATATT3", Rule::Token(Class::Token, 60)),
    // Payments, mail, chat and work.
    shape("stripe_key", "sk_live_", Rule::Token(Class::Alnum, 10)),
    shape("stripe_key", "sk_test_", Rule::Token(Class::Alnum, 10)),
    shape("stripe_key", "rk_live_", Rule::Token(Class::Alnum, 10)),
    shape("stripe_key", "rk_test_", Rule::Token(Class::Alnum, 10)),
    shape("stripe_key", "whsec_", Rule::Token(Class::Base64, 24)),
    shape("square_token", "sq0atp-", Rule::Token(Class::Url, 20)),
    shape("square_token", "sq0csp-", Rule::Token(Class::Url, 40)),
    shape("shopify_token", "shpat_", Rule::Token(Class::Alnum, 30)),
    shape("shopify_token", "shpss_", Rule::Token(Class::Alnum, 30)),
    shape("shopify_token", "shpca_", Rule::Token(Class::Alnum, 30)),
    shape("shopify_token", "shppa_", Rule::Token(Class::Alnum, 30)),
    shape("sendgrid_key", "SG.", Rule::Token(Class::Dotted, 60)),
    shape("slack_token", "xoxb-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxp-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxa-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxr-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxs-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxc-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxd-", Rule::Token(Class::Token, 10)),
    shape("slack_token", "xoxe-", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xoxe.", Rule::Token(Class::Url, 10)),
    shape("slack_token", "xapp-", Rule::Token(Class::Url, 10)),
    shape("slack_webhook", "hooks.slack.com/services/", Rule::Token(Class::Token, 20)),
    shape("discord_webhook", "discord.com/api/webhooks/", Rule::Token(Class::Token, 40)),
    shape("linear_key", "lin_api_", Rule::Token(Class::Alnum, 30)),
    shape("notion_token", "ntn_", Rule::Dense(Class::Alnum, 30)),
    shape("figma_token", "figd_", Rule::Token(Class::Url, 30)),
    // Values whose name says what they are.
    shape("named_value", "api-key", Rule::Named),
    shape("named_value", "api_key", Rule::Named),
    shape("named_value", "apikey", Rule::Named),
    shape("named_value", "auth-token", Rule::Named),
    shape("named_value", "auth_token", Rule::Named),
    shape("named_value", "authtoken", Rule::Named),
    shape("named_value", "private-token", Rule::Named),
    shape("named_value", "access_token", Rule::Named),
    shape("named_value", "refresh_token", Rule::Named),
    shape("named_value", "session_token", Rule::Named),
    shape("named_value", "sessiontoken", Rule::Named),
    shape("named_value", "client_secret", Rule::Named),
    shape("named_value", "clientsecret", Rule::Named),
    shape("named_value", "secret_key", Rule::Named),
];

/// The length of the longest beginning, in bytes.
pub(super) const LONGEST_NEEDLE: usize = {
    let (mut longest, mut at) = (0, 0);
    while at < SHAPES.len() {
        if SHAPES[at].needle.len() > longest {
            longest = SHAPES[at].needle.len();
        }
        at += 1;
    }
    longest
};

impl Shape {
    /// Whether the beginning is the name of a value.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.rule, Rule::Named | Rule::AwsSecret)
    }

    /// Whether a value of this name is a secret.
    pub(super) fn accepts(&self, value: &[u8]) -> bool {
        let whole = value.iter().all(|b| Class::Token.holds(*b));
        whole
            && match self.rule {
                Rule::Named => matchers::looks_random(value),
                Rule::AwsSecret => matchers::aws_secret(value),
                _ => false,
            }
    }
}

#[cfg(test)]
impl Shape {
    /// The shortest body of a plain key.
    pub(super) fn least_body(&self) -> Option<usize> {
        match self.rule {
            Rule::Token(_, least) | Rule::Dense(_, least) | Rule::Exact(_, least) => Some(least),
            _ => None,
        }
    }
}
