//! The Kubernetes client, with a user agent and errors that name the server.

use hyper::Uri;
use hyper::header::{HeaderValue, USER_AGENT};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::BoxError;
use tower::util::MapErrLayer;

use crate::log::error_chain;

/// The user agent. API servers write it to audit logs and use it in metrics.
const USER_AGENT_VALUE: &str = concat!("global-dns/", env!("CARGO_PKG_VERSION"));

/// Creates a client. It requests compressed responses, except for watches.
///
/// # Errors
///
/// If certificates or credentials cannot be used.
pub(crate) fn client(mut config: Config) -> Result<Client, kube::Error> {
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE)));
    let url = config.cluster_url.to_string();
    let mut way = url.trim_end_matches('/').to_owned();
    let proxy = config.proxy_url.as_ref().and_then(Uri::authority);
    // Without a user and a password.
    if let Some(proxy) = proxy.and_then(|one| one.as_str().rsplit('@').next()) {
        way += &format!(" through the proxy {proxy}");
    }
    let name_server = move |error: BoxError| unreachable_at(&way, error);
    let mut sender = ClientBuilder::try_from(config.clone());
    if sender.is_err() && config.root_cert.is_none() {
        // The image has no CA certificates. Without one, kube makes no client, also for http and insecure-skip-tls-verify.
        config.root_cert = Some(Vec::new());
        sender = ClientBuilder::try_from(config);
    }
    Ok(sender?.with_layer(&MapErrLayer::new(name_server)).build())
}

/// Adds the way to the API server to the error of a request. Leaves errors of the client itself, such as unusable credentials,
/// unchanged.
fn unreachable_at(way: &str, error: BoxError) -> BoxError {
    if error.is::<kube::Error>() {
        return error;
    }
    let reason = error_chain(error.as_ref());
    // The HTTP client puts this before every reason.
    let reason = reason
        .strip_prefix("client error (Connect): ")
        .unwrap_or(&reason);
    let mut sentence = format!("cannot reach {way}: {reason}");
    if reason.contains("UnknownIssuer") {
        sentence += "; set certificate-authority in the kubeconfig to the CA of the API server";
    }
    sentence.into()
}

/// Returns the reason of a failed request.
pub(super) fn error_text(error: &kube::Error) -> String {
    let text = error_chain(error);
    text.strip_prefix("ServiceError: ")
        .unwrap_or(&text)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use hyper::Request;

    use super::*;

    /// A list of three objects, compressed with gzip.
    const COMPRESSED: [u8; 106] = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x95, 0xca, 0x3b, 0x0e, 0x80,
        0x20, 0x10, 0x45, 0xd1, 0xbd, 0xbc, 0x1a, 0x13, 0xb5, 0x31, 0x61, 0x21, 0x36, 0xc6, 0x62,
        0x94, 0x29, 0x28, 0xf8, 0x64, 0xc0, 0x8a, 0xcc, 0xde, 0x25, 0x76, 0x96, 0x94, 0xf7, 0xe6,
        0x34, 0x04, 0xae, 0xe4, 0xa8, 0x12, 0x6c, 0x83, 0x70, 0x49, 0x8f, 0xdc, 0xbc, 0xb3, 0x14,
        0x9f, 0x22, 0x2c, 0x36, 0xa8, 0x81, 0xaf, 0x1c, 0x0a, 0xec, 0xd1, 0x7e, 0x38, 0x52, 0xe0,
        0x92, 0xe9, 0xe6, 0xce, 0xb2, 0x24, 0x07, 0xf3, 0xad, 0x5e, 0xee, 0x9a, 0x66, 0xa8, 0x9a,
        0x01, 0xbf, 0x0c, 0xfa, 0xb5, 0xfb, 0x53, 0x5f, 0xd4, 0xa9, 0x96, 0xa5, 0xbe, 0x00, 0x00,
        0x00,
    ];

    /// Answers one request with a compressed list. Returns the head of the request.
    fn answer(listener: &TcpListener) -> String {
        let (stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let length = COMPRESSED.len();
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n"
        );
        (&stream).write_all(reply.as_bytes()).unwrap();
        (&stream).write_all(&COMPRESSED).unwrap();
        head.join("\n").to_lowercase()
    }

    #[tokio::test]
    async fn lists_are_compressed_and_requests_have_the_user_agent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || answer(&listener));
        let client = client(Config::new(url.parse().unwrap())).unwrap();
        let request = Request::get("/api/v1/services").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.unwrap();
        assert_eq!(text.matches("\"db-").count(), 3, "{text}");
        let head = server.join().unwrap();
        assert!(head.contains("accept-encoding: gzip"), "{head}");
        let name = format!("user-agent: global-dns/{}", crate::VERSION);
        assert!(head.contains(&name), "{head}");
    }
}
