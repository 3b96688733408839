//! Complete responses, and what tests read from them.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// A complete response.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ApiResponse {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error} in {}", self.text()),
        }
    }

    /// Returns the body as JSON, or null if it is not JSON.
    pub fn json_or_null(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Asserts the status code and returns the body as JSON.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        self.expect_status_code(status);
        self.json()
    }

    /// Asserts the status code, whatever the body is.
    #[track_caller]
    pub fn expect_status_code(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text());
    }

    /// Asserts the code and the reason of a Status and returns its message.
    #[track_caller]
    pub fn expect_status(&self, code: u16, reason: &str) -> String {
        let value = self.expect(code);
        assert_eq!((&value["kind"], &value["code"]), (&"Status".into(), &code.into()), "{value}");
        assert_eq!(value["reason"], reason, "{value}");
        value["message"].as_str().expect("a message").to_string()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Returns the resource version of an object or a list.
#[track_caller]
pub fn revision(value: &Value) -> u64 {
    let text = value["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no revision in {value}"))
}

/// Returns the names of a list's items without the ConfigMap that every namespace has.
pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no items in {list}"));
    let names = items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_string());
    names.filter(|name| name != "kube-root-ca.crt").collect()
}
