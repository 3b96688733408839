//! HTML pages that pass through a proxy, with their links rewritten on the fly. At most one tag is kept in
//! memory, because requests to proxies are not counted against the limits on requests in flight.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::write::{GzEncoder, MultiGzDecoder};
use http_body::Frame;

use super::backend::RelayedBody;
use super::rewrite::LinkRewriter;
use crate::respond::gzip;

/// Longer tags, for example with embedded images, are passed on unchanged.
const MAX_TAG_BYTES: usize = 64 << 10;
/// Bytes of a page that are rewritten at once. The limit for compressed pages is lower because they can
/// expand a thousandfold.
const MAX_CHUNK: usize = 64 << 10;
const MAX_GZIP_CHUNK: usize = 4 << 10;

/// Rewrites the links of one page.
pub struct HtmlRewriter {
    rewriter: LinkRewriter,
    state: ParserState,
    /// Input that cannot be processed before more input arrives.
    held: Vec<u8>,
    /// Length of `held` before it is parsed again. Without it, a tag that arrives byte by byte would be
    /// parsed from its start for each byte.
    min_length: usize,
}

enum ParserState {
    Text,
    Comment,
    /// Raw text that ends with this end tag.
    Raw(String),
}

impl HtmlRewriter {
    pub fn new(rewriter: LinkRewriter) -> Self {
        HtmlRewriter { rewriter, state: ParserState::Text, held: Vec::new(), min_length: 0 }
    }

    /// Rewrites a complete page.
    pub fn rewritten(rewriter: LinkRewriter, page: &[u8]) -> Vec<u8> {
        let mut links = HtmlRewriter::new(rewriter);
        let mut written = Vec::with_capacity(page.len());
        links.push(page, &mut written);
        links.finish(&mut written);
        written
    }

    /// Processes a chunk of the page and writes the finished output.
    pub fn push(&mut self, chunk: &[u8], written: &mut Vec<u8>) {
        self.held.extend_from_slice(chunk);
        if self.held.len() >= self.min_length {
            self.write(false, written);
        }
    }

    /// Writes the rest at the end of the page.
    pub fn finish(&mut self, written: &mut Vec<u8>) {
        self.write(true, written);
    }

    fn write(&mut self, is_end: bool, written: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        self.min_length = 0;
        while !rest.is_empty() {
            let length = match &self.state {
                ParserState::Text => self.text(rest, is_end, written),
                ParserState::Comment => self.up_to(rest, b"-->", 3, is_end, written),
                ParserState::Raw(end) => {
                    let end = end.clone();
                    self.up_to(rest, end.as_bytes(), 0, is_end, written)
                }
            };
            match length {
                Some(length) => rest = &rest[length..],
                None => break,
            }
        }
        self.held = rest.to_vec();
    }

    /// Writes text or the next tag. Returns the number of bytes of `rest` that were consumed, `None` if more
    /// input is needed.
    fn text(&mut self, rest: &[u8], is_end: bool, written: &mut Vec<u8>) -> Option<usize> {
        if rest[0] != b'<' {
            let length = rest.iter().position(|byte| *byte == b'<').unwrap_or(rest.len());
            written.extend_from_slice(&rest[..length]);
            return Some(length);
        }
        if !is_end && rest.len() < 4 && b"<!--".starts_with(rest) {
            return None;
        }
        if rest.starts_with(b"<!--") {
            self.state = ParserState::Comment;
            written.extend_from_slice(b"<!");
            return Some(2);
        }
        if !rest.get(1).is_some_and(u8::is_ascii_alphabetic) {
            written.push(b'<');
            return Some(1);
        }
        let before = written.len();
        if let Some(tag) = self.rewriter.tag(rest, written) {
            if let Some(element) = tag.raw {
                self.state = ParserState::Raw(format!("</{element}"));
            }
            return Some(tag.length);
        }
        if is_end {
            return Some(rest.len());
        }
        written.truncate(before);
        if rest.len() > MAX_TAG_BYTES {
            written.extend_from_slice(rest);
            return Some(rest.len());
        }
        self.min_length = 2 * rest.len();
        None
    }

    /// Copies content that is not HTML up to `end`, including `with` bytes of `end`.
    fn up_to(
        &mut self,
        rest: &[u8],
        end: &[u8],
        with: usize,
        is_end: bool,
        written: &mut Vec<u8>,
    ) -> Option<usize> {
        let found = rest.windows(end.len()).position(|window| window.eq_ignore_ascii_case(end));
        let length = match found {
            Some(at) => {
                self.state = ParserState::Text;
                at + with
            }
            None if is_end => rest.len(),
            // The input may end with the start of `end`.
            None => rest.len().saturating_sub(end.len() - 1),
        };
        written.extend_from_slice(&rest[..length]);
        (found.is_some() || length > 0).then_some(length)
    }
}

/// Rewrites decompressed input and compresses the output.
struct GzipRewriter {
    links: HtmlRewriter,
    encoder: GzEncoder<Vec<u8>>,
}

impl GzipRewriter {
    fn encode(&mut self, plain: &[u8]) -> io::Result<()> {
        self.encoder.write_all(plain)
    }
}

impl Write for GzipRewriter {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        let mut plain = Vec::with_capacity(chunk.len());
        self.links.push(chunk, &mut plain);
        self.encode(&plain)?;
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }
}

enum Coding {
    Plain(HtmlRewriter),
    Gzip(Box<MultiGzDecoder<GzipRewriter>>),
}

impl Coding {
    fn push(&mut self, chunk: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Coding::Plain(links) => {
                let mut written = Vec::with_capacity(chunk.len());
                links.push(chunk, &mut written);
                Ok(written)
            }
            Coding::Gzip(decoder) => {
                decoder.write_all(chunk)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut().encoder.get_mut()))
            }
        }
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        let mut written = Vec::new();
        match self {
            Coding::Plain(links) => links.finish(&mut written),
            Coding::Gzip(decoder) => {
                decoder.try_finish()?;
                let zipped = decoder.get_mut();
                zipped.links.finish(&mut written);
                zipped.encode(&written)?;
                zipped.encoder.try_finish()?;
                written = std::mem::take(zipped.encoder.get_mut());
            }
        }
        Ok(written)
    }
}

/// The body of a response that is an HTML page.
pub struct HtmlBody {
    body: RelayedBody,
    coding: Coding,
    /// Input that has not been processed.
    arrived: Bytes,
    /// Whether any data arrived: a response to HEAD is empty with any encoding.
    has_content: bool,
    is_done: bool,
}

impl HtmlBody {
    pub fn new(body: RelayedBody, rewriter: LinkRewriter, is_zipped: bool) -> Self {
        let links = HtmlRewriter::new(rewriter);
        let coding = match is_zipped {
            true => Coding::Gzip(Box::new(MultiGzDecoder::new(GzipRewriter { links, encoder: gzip() }))),
            false => Coding::Plain(links),
        };
        HtmlBody { body, coding, arrived: Bytes::new(), has_content: false, is_done: false }
    }

    /// Returns the output to send. A page with invalid gzip data ends without a gzip trailer, so that the
    /// client detects that it is incomplete.
    fn output(&mut self, written: io::Result<Vec<u8>>) -> Option<Bytes> {
        match written {
            Ok(written) => (!written.is_empty()).then(|| Bytes::from(written)),
            Err(error) => {
                tracing::debug!(%error, "HTML page from a proxied backend is not valid gzip");
                self.is_done = true;
                None
            }
        }
    }
}

impl http_body::Body for HtmlBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let page = &mut *self;
        while !page.is_done {
            if !page.arrived.is_empty() {
                let most = if matches!(page.coding, Coding::Plain(_)) { MAX_CHUNK } else { MAX_GZIP_CHUNK };
                let slice = page.arrived.split_to(page.arrived.len().min(most));
                let written = page.coding.push(&slice);
                if let Some(written) = page.output(written) {
                    return Poll::Ready(Some(Ok(Frame::data(written))));
                }
                // Yield to other tasks before the next chunk.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match std::task::ready!(Pin::new(&mut page.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        page.has_content |= !data.is_empty();
                        page.arrived = data;
                    }
                    // Trailers are dropped: they would have to wait for the end of the page, and browsers
                    // ignore them.
                    Err(_trailers) => {}
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    page.is_done = true;
                    let written = if page.has_content { page.coding.finish() } else { Ok(Vec::new()) };
                    if let Some(written) = page.output(written) {
                        return Poll::Ready(Some(Ok(Frame::data(written))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rewrite::tests::rewriter;
    use super::*;

    #[test]
    fn links_in_pages_are_rewritten() {
        for (page, expected) in [
            (r#"<a href="/rewriteme">test</a>"#, r#"<a href="/p/proxy/rewriteme">test</a>"#),
            ("<IMG alt=/x Src=/y>", "<IMG alt=/x Src=\"/p/proxy/y\">"),
            ("<a class=x href = '/y' >", "<a class=x href = '/p/proxy/y' >"),
            ("<p href=\"/x\">1 < 2 </p>", "<p href=\"/x\">1 < 2 </p>"),
            (
                "<!-- <a href=\"/x\"> --><a\nhref=\"/x\"/>",
                "<!-- <a href=\"/x\"> --><a\nhref=\"/p/proxy/x\"/>",
            ),
            (
                "<script src=\"/s.js\">if (a<b) { \"<a href='/x'>\" }</SCRIPT><a href=/x>",
                "<script src=\"/p/proxy/s.js\">if (a<b) { \"<a href='/x'>\" }</SCRIPT><a href=\"/p/proxy/x\">",
            ),
            ("<a disabled href=\"/x\">", "<a disabled href=\"/p/proxy/x\">"),
            ("<a href=\"/x", "<a href=\"/x"),
            ("<a href=\"/x><img src=/y>", "<a href=\"/x><img src=/y>"),
            ("<a href=", "<a href="),
            ("<", "<"),
        ] {
            let whole = HtmlRewriter::rewritten(rewriter(), page.as_bytes());
            assert_eq!(String::from_utf8(whole).unwrap(), expected, "{page}");
            let mut links = HtmlRewriter::new(rewriter());
            let mut byte_by_byte = Vec::new();
            page.bytes().for_each(|byte| links.push(&[byte], &mut byte_by_byte));
            links.finish(&mut byte_by_byte);
            assert_eq!(String::from_utf8(byte_by_byte).unwrap(), expected, "{page}, one byte at a time");
        }
    }

    #[test]
    fn at_most_one_tag_is_buffered() {
        let mut links = HtmlRewriter::new(rewriter());
        let mut written = Vec::new();
        let image =
            format!("<img src=\"data:image/png;base64,{}\"><a href=\"/x\">", "A".repeat(8 * MAX_TAG_BYTES));
        for chunk in image.as_bytes().chunks(1000) {
            links.push(chunk, &mut written);
            assert!(links.held.len() <= 2 * MAX_TAG_BYTES + 1000);
        }
        links.finish(&mut written);
        let expected = image.replace("/x", "/p/proxy/x");
        assert!(written == expected.as_bytes(), "only the link is rewritten");
    }
}
