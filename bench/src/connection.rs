//! A connection of the load generator. It shares the machine with the server, so it has no HTTP library: it sends
//! prepared bytes and reads just enough of the response to know its status and its end.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One kept-alive connection with its last response.
pub(crate) struct Connection {
    stream: TcpStream,
    response: Vec<u8>,
    /// Where the body begins in it.
    body: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, response: Vec::with_capacity(1 << 15), body: 0 })
    }

    /// Sends one request, reads the whole response and returns its status.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request).await?;
        self.response.clear();
        let mut head = None;
        loop {
            if self.stream.read_buf(&mut self.response).await? == 0 {
                bail!("the server closed the connection");
            }
            if head.is_none() {
                head = Head::parse(&self.response)?;
            }
            if let Some(head) = &head {
                let missing = (head.length + head.body).saturating_sub(self.response.len());
                if missing == 0 {
                    self.body = head.length;
                    return Ok(head.status);
                }
                self.response.reserve(missing);
            }
        }
    }

    /// The body of the last response.
    pub(crate) fn body(&self) -> &[u8] {
        &self.response[self.body..]
    }

    /// The last response, for an error message.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.response).into_owned()
    }
}

/// The head of a response.
#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    length: usize,
    body: usize,
}

impl Head {
    /// Parses a head once it is complete.
    fn parse(response: &[u8]) -> Result<Option<Self>> {
        let Some(length) = response.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let mut lines = response[..length].split(|&byte| byte == b'\n');
        let first = lines.next().and_then(|line| std::str::from_utf8(line).ok());
        let status =
            first.and_then(|line| line.split(' ').nth(1)?.trim().parse().ok()).context("no status line")?;
        let body = match status {
            // Such a response has neither a body nor a Content-Length.
            204 => 0,
            _ => lines.find_map(content_length).context("a response without Content-Length")?,
        };
        Ok(Some(Self { status, length: length + 4, body }))
    }
}

fn content_length(line: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let (name, value) = line.split_at_checked(NAME.len())?;
    name.eq_ignore_ascii_case(NAME).then(|| std::str::from_utf8(value).ok()?.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        let response = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 12\r\n\r\n{";
        assert_eq!(Head::parse(&response[..30]).unwrap(), None);
        let head = Head::parse(response).unwrap().unwrap();
        assert_eq!(head, Head { status: 201, length: response.len() - 1, body: 12 });
    }

    #[test]
    fn a_response_of_unknown_length_is_refused() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
