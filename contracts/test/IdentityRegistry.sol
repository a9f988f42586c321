// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface IReceiver {
    function onERC721Received(address, address, uint256, bytes calldata) external returns (bytes4);
}

/// ERC-8004 identity registry as version 2.0.0 of the deployed one behaves, without its proxy and its owner.
/// No constructor and no immutable, so its runtime code can be put at any address.
contract IdentityRegistry {
    struct MetadataEntry {
        string metadataKey;
        bytes metadataValue;
    }

    struct Layout {
        uint256 lastId;
        mapping(uint256 => mapping(string => bytes)) metadata;
    }

    // Where the deployed registry keeps its ids and its wallets, so that storage proofs read the same here.
    bytes32 private constant LAYOUT = 0xa040f782729de4970518741823ec1276cbcd41a0c7493f62d173341566a04e00;
    bytes32 private constant WALLET_SET_TYPEHASH =
        keccak256("AgentWalletSet(uint256 agentId,address newWallet,address owner,uint256 deadline)");
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;
    uint256 private constant DEADLINE_AHEAD_MAX = 300 seconds;
    string private constant WALLET_KEY = "agentWallet";

    string public constant name = "AgentIdentity";
    string public constant symbol = "AGENT";

    mapping(uint256 => address) private _owners;
    mapping(uint256 => address) private _approvals;
    mapping(uint256 => string) private _uris;
    mapping(address => uint256) private _balances;
    mapping(address => mapping(address => bool)) public isApprovedForAll;

    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);
    event MetadataSet(
        uint256 indexed agentId, string indexed indexedMetadataKey, string metadataKey, bytes metadataValue
    );
    event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy);
    event MetadataUpdate(uint256 tokenId);
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event Approval(address indexed owner, address indexed approved, uint256 indexed tokenId);
    event ApprovalForAll(address indexed owner, address indexed operator, bool approved);

    error ERC721NonexistentToken(uint256 tokenId);
    error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner);
    error ERC721InsufficientApproval(address operator, uint256 tokenId);
    error ERC721InvalidApprover(address approver);
    error ERC721InvalidOperator(address operator);
    error ERC721InvalidOwner(address owner);
    error ERC721InvalidReceiver(address receiver);

    function getVersion() external pure returns (string memory) {
        return "2.0.0";
    }

    // --- agents ---

    function register() external returns (uint256) {
        return _register("", new MetadataEntry[](0));
    }

    function register(string calldata agentURI) external returns (uint256) {
        return _register(agentURI, new MetadataEntry[](0));
    }

    function register(string calldata agentURI, MetadataEntry[] calldata metadata) external returns (uint256) {
        return _register(agentURI, metadata);
    }

    function _register(string memory agentURI, MetadataEntry[] memory metadata) private returns (uint256 agentId) {
        agentId = _layout().lastId++;
        _owners[agentId] = msg.sender;
        ++_balances[msg.sender];
        emit Transfer(address(0), msg.sender, agentId);
        if (bytes(agentURI).length != 0) _setURI(agentId, agentURI);
        emit Registered(agentId, agentURI, msg.sender);
        // The registrant is the first wallet. Only a transfer or an unset leaves an agent without one.
        _setMetadata(agentId, WALLET_KEY, abi.encodePacked(msg.sender));
        for (uint256 i; i < metadata.length; ++i) {
            _requireFree(metadata[i].metadataKey);
            _setMetadata(agentId, metadata[i].metadataKey, metadata[i].metadataValue);
        }
        _requireReceived(address(0), msg.sender, agentId, "");
    }

    function tokenURI(uint256 agentId) external view returns (string memory) {
        ownerOf(agentId);
        return _uris[agentId];
    }

    function setAgentURI(uint256 agentId, string calldata newURI) external {
        _requireAuthorized(agentId);
        _setURI(agentId, newURI);
        emit URIUpdated(agentId, newURI, msg.sender);
    }

    function getMetadata(uint256 agentId, string calldata metadataKey) external view returns (bytes memory) {
        return _layout().metadata[agentId][metadataKey];
    }

    function setMetadata(uint256 agentId, string calldata metadataKey, bytes calldata metadataValue) external {
        _requireAuthorized(agentId);
        _requireFree(metadataKey);
        _setMetadata(agentId, metadataKey, metadataValue);
    }

    /// Zero both for an agent without a wallet and for an id without an agent: it never reverts.
    function getAgentWallet(uint256 agentId) external view returns (address) {
        return address(bytes20(_layout().metadata[agentId][WALLET_KEY]));
    }

    function setAgentWallet(uint256 agentId, address newWallet, uint256 deadline, bytes calldata signature) external {
        address owner = _requireAuthorized(agentId);
        require(newWallet != address(0), "bad wallet");
        require(block.timestamp <= deadline, "expired");
        require(deadline <= block.timestamp + DEADLINE_AHEAD_MAX, "deadline too far");
        bytes32 structHash = keccak256(abi.encode(WALLET_SET_TYPEHASH, agentId, newWallet, owner, deadline));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", _domainSeparator(), structHash));
        require(_signed(newWallet, digest, signature), "invalid wallet sig");
        _setMetadata(agentId, WALLET_KEY, abi.encodePacked(newWallet));
    }

    function unsetAgentWallet(uint256 agentId) external {
        _requireAuthorized(agentId);
        _setMetadata(agentId, WALLET_KEY, "");
    }

    function isAuthorizedOrOwner(address spender, uint256 agentId) public view returns (bool) {
        address owner = ownerOf(agentId);
        return spender == owner || isApprovedForAll[owner][spender] || _approvals[agentId] == spender;
    }

    function eip712Domain()
        external
        view
        returns (bytes1, string memory, string memory, uint256, address, bytes32, uint256[] memory)
    {
        return
            (hex"0f", "ERC8004IdentityRegistry", "1", block.chainid, address(this), bytes32(0), new uint256[](0));
    }

    // --- ERC-721 ---

    function balanceOf(address owner) external view returns (uint256) {
        if (owner == address(0)) revert ERC721InvalidOwner(owner);
        return _balances[owner];
    }

    function ownerOf(uint256 tokenId) public view returns (address owner) {
        owner = _owners[tokenId];
        if (owner == address(0)) revert ERC721NonexistentToken(tokenId);
    }

    function getApproved(uint256 tokenId) external view returns (address) {
        ownerOf(tokenId);
        return _approvals[tokenId];
    }

    function approve(address to, uint256 tokenId) external {
        address owner = ownerOf(tokenId);
        if (msg.sender != owner && !isApprovedForAll[owner][msg.sender]) revert ERC721InvalidApprover(msg.sender);
        _approvals[tokenId] = to;
        emit Approval(owner, to, tokenId);
    }

    function setApprovalForAll(address operator, bool approved) external {
        if (operator == address(0)) revert ERC721InvalidOperator(operator);
        isApprovedForAll[msg.sender][operator] = approved;
        emit ApprovalForAll(msg.sender, operator, approved);
    }

    function transferFrom(address from, address to, uint256 tokenId) public {
        if (to == address(0)) revert ERC721InvalidReceiver(to);
        if (!isAuthorizedOrOwner(msg.sender, tokenId)) revert ERC721InsufficientApproval(msg.sender, tokenId);
        address owner = _owners[tokenId];
        if (owner != from) revert ERC721IncorrectOwner(from, tokenId, owner);
        // A wallet belongs to the owner who set it. Even a transfer to oneself clears it.
        _setMetadata(tokenId, WALLET_KEY, "");
        delete _approvals[tokenId];
        --_balances[from];
        ++_balances[to];
        _owners[tokenId] = to;
        emit Transfer(from, to, tokenId);
    }

    function safeTransferFrom(address from, address to, uint256 tokenId) external {
        safeTransferFrom(from, to, tokenId, "");
    }

    function safeTransferFrom(address from, address to, uint256 tokenId, bytes memory data) public {
        transferFrom(from, to, tokenId);
        _requireReceived(from, to, tokenId, data);
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0x5b5e139f || id == 0x49064906;
    }

    // --- shared ---

    function _layout() private pure returns (Layout storage l) {
        bytes32 slot = LAYOUT;
        assembly ("memory-safe") {
            l.slot := slot
        }
    }

    function _requireAuthorized(uint256 agentId) private view returns (address owner) {
        require(isAuthorizedOrOwner(msg.sender, agentId), "Not authorized");
        return _owners[agentId];
    }

    function _requireFree(string memory key) private pure {
        require(keccak256(bytes(key)) != keccak256(bytes(WALLET_KEY)), "reserved key");
    }

    function _setMetadata(uint256 agentId, string memory key, bytes memory value) private {
        _layout().metadata[agentId][key] = value;
        emit MetadataSet(agentId, key, key, value);
    }

    function _setURI(uint256 agentId, string memory uri) private {
        _uris[agentId] = uri;
        emit MetadataUpdate(agentId);
    }

    function _requireReceived(address from, address to, uint256 tokenId, bytes memory data) private {
        if (to.code.length == 0) return;
        try IReceiver(to).onERC721Received(msg.sender, from, tokenId, data) returns (bytes4 answer) {
            if (answer == IReceiver.onERC721Received.selector) return;
        } catch {}
        revert ERC721InvalidReceiver(to);
    }

    function _domainSeparator() private view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("ERC8004IdentityRegistry"),
                keccak256("1"),
                block.chainid,
                address(this)
            )
        );
    }

    /// ECDSA first, then ERC-1271: so an EIP-7702 account may sign with its key.
    function _signed(address wallet, bytes32 digest, bytes calldata signature) private view returns (bool) {
        if (signature.length == 65 && uint256(bytes32(signature[32:64])) <= HALF_ORDER) {
            bytes32 r = bytes32(signature[0:32]);
            if (ecrecover(digest, uint8(signature[64]), r, bytes32(signature[32:64])) == wallet) return true;
        }
        (bool ok, bytes memory answer) =
            wallet.staticcall(abi.encodeWithSignature("isValidSignature(bytes32,bytes)", digest, signature));
        return ok && answer.length >= 32 && bytes4(bytes32(answer)) == 0x1626ba7e;
    }
}
