import { runSuite } from "./lib/suite.mjs";

runSuite({ name: "plain-postgres", store: "postgres", withApiKey: true });
