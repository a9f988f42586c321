import { runSuite } from "./lib/suite.mjs";

runSuite({ name: "plain-sqlite" });
