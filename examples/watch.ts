// Follows the clusters of a HyperFleet for ever: node watch.ts (22.18 or newer), or any bundler.

async function* follow(url = "", since = "") {
  for (;;) {
    const headers = { Accept: "application/x-ndjson" };
    const answer = await fetch(`${url}?watch=true&since=${since}`, { headers }).catch(() => null);
    const status = answer?.status ?? 503;
    if (since && (status === 400 || status === 410)) {
      since = ""; // too long ago, or before the database was restored
      yield { type: "RESTART" };
    } else if (status >= 400 && status < 500) {
      throw new Error(await answer?.text());
    } else {
      try {
        let rest = "";
        for await (const chunk of answer?.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          const lines = (rest + chunk).split("\n");
          rest = lines.pop() ?? "";
          for (const event of lines.map((line) => JSON.parse(line))) {
            since = event.position ?? since;
            if (event.type !== "ERROR") yield event;
          }
        }
      } catch {} // the connection broke
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

const api = process.env.API ?? "http://localhost:8000/api/hyperfleet/v1";
for await (const event of follow(`${api}/clusters`)) {
  console.log(event.type, event.version ?? 0, event.object?.name ?? "");
}
