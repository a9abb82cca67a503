//! Who speaks to the API server, and with what token.

use std::fs;
use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::error::{Error, Tried};

/// A user of the API server's list of tokens.
pub struct User {
    pub name: String,
    pub groups: &'static str,
}

impl User {
    pub fn admin() -> Self {
        Self { name: "admin".to_owned(), groups: "system:masters" }
    }

    fn token(&self) -> String {
        format!("a-token-of-{}", self.name.replace(':', "-"))
    }
}

/// The API server's list.
pub fn tokens(users: &[User]) -> String {
    let line =
        |user: &User| format!("{},{},{},\"{}\"\n", user.token(), user.name, user.name, user.groups);
    users.iter().map(line).collect()
}

/// Writes the file that lets somebody speak as this user.
pub fn write(path: &Path, server: &str, authority: &Path, user: &User) -> Result<(), Error> {
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": {
            "server": server, "certificate-authority": authority,
        }}],
        "users": [{ "name": "u", "user": { "token": user.token() } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    fs::write(path, text.to_string()).at("could not write", path)
}

/// Speaks as the file says.
pub async fn client(path: &Path) -> Result<Client, Error> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}
