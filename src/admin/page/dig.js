// The command that asks the server for a name.

/**
 * Returns a command that asks `server`, an address with a port, for an explained name. A link to this page can contain any
 * name, so it is quoted for the shell.
 */
export function digLine({ name, answers }, server = "") {
  const data = answers.find(({ result }) => result === "NOERROR");
  const type = (data ?? answers[0])?.rtype ?? "A";
  const isPlain = /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(name);
  const quoted = isPlain ? name : `-q '${name.replaceAll("'", "'\\''")}' -t`;
  const [, address, port] = /^\[?([0-9a-f.:]+?)\]?:(\d+)$/i.exec(server) ?? [];
  const at = address ? `@${address} ${port === "53" ? "" : `-p ${port} `}` : "";
  // Without an answer, its status is of interest.
  return `dig ${at}${data ? "+noall +answer " : ""}${quoted} ${type}`;
}
